"""`.ci/bare` where it cannot run, and the packages that it installs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (1000, "bare: a root is made and mounted into: run it as root\n"),
        (0, "bare: debootstrap is missing: apt-get install debootstrap\n"),
    ],
)
def test_a_missing_need_is_one_line(user: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (tmp_path / "id").chmod(0o755)
    (tmp_path / "dirname").symlink_to(shutil.which("dirname", path="/usr/bin:/bin") or "")
    ran = subprocess.run(["/bin/bash", ROOT / ".ci/bare"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, message, "")


def test_only_what_the_makefile_asks_for_is_installed() -> None:
    """Beside make, git for the clone, and the headers that gcc recommends."""
    packages = re.search(r"^packages=(.+)$", (ROOT / ".ci/bare").read_text(), re.MULTILINE)
    named = re.findall(r"apt-get install ([a-z0-9 -]+)", (ROOT / "Makefile").read_text())
    assert packages and set(packages[1].split(",")) == {*" ".join(named).split(), "make", "git", "libc6-dev"}
