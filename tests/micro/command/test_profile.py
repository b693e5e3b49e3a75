"""`--profile` under perf itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT


def records(folder: Path) -> str | None:
    """Why perf cannot record here."""
    if shutil.which("perf") is None:
        return "perf is not installed"
    ran = subprocess.run(
        ["perf", "record", "-e", "cpu-clock", "-o", "try.data", "--", "true"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return None if ran.returncode == 0 else f"perf may not record: {ran.stderr.strip()[-200:]}"


@pytest.mark.slow
def test_a_real_run_under_the_printed_line(own_state: Path, tmp_path: Path) -> None:
    """perf sees the kernel, and of the command around it nothing that takes time."""
    if reason := records(tmp_path):
        pytest.skip(reason)
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    size = ("--m", "256", "--n", "256", "--k", "256", "--variant", "naive")
    printed = run(sys.executable, "-m", "micro.gemm", *size, "--profile")
    assert printed.returncode == 0, printed.stderr
    ran = run("bash", "-c", printed.stdout.splitlines()[1])
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, ran.stderr
    assert "variant:naive/threads:1: one warmed launch, " in ran.stdout
    rows = [line.split() for line in ran.stdout.splitlines() if "%" in line and not line.startswith("#")]
    share = sum(float(row[0].rstrip("%")) for row in rows if any("naive" in word for word in row))
    assert share > 50, ran.stdout
