"""What the commands print: help, a line where there is no room, and nothing of a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.errors import NoRoom, Unavailable
from macro import __main__ as macro
from macro import command
from macro.networks.base import chain
from macro.processes import job
from tests import house

PROGRAMS = [(command, "train.py") for command in ("advise", "explain", "whatif")]


@pytest.mark.parametrize("words", [*((command,) for command in macro.commands()), *PROGRAMS])
def test_help_is_told(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        raise SystemExit(macro.main([*words, "--help"]))
    told = " ".join(capsys.readouterr().out.split())
    assert not end.value.code and "usage: python -m macro" in told
    if words in PROGRAMS:
        assert ("total time: 15 % for kernels by themselves" in told) == (words[0] == "advise")


def test_a_line_of_progress_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads print too, and two writes let another's line come between."""
    written: list[str] = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=lambda: None))
    command.say(False, "starting")
    command.say(True, "nothing")
    assert written == ["starting\n"]


SMALL = chain("small", "a test", 4, (6, 5, 3), rate=0.1)
RUN = "reports/reference/transpose-full.jsonl"


@pytest.mark.parametrize(
    ("raised", "why"),
    [
        (OSError(28, "No space left on device"), r"small need \S+ GB: .*: No space left on .*: set TMPDIR="),
        (MemoryError(), r"small need \S+ GB, more than the free memory$"),
    ],
)
def test_weights_without_room_are_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, why: str
) -> None:
    def full(*args: object, **arrays: object) -> None:
        raise raised

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(Unavailable, match=why):
        job.write_arrays(SMALL, SMALL.batch, tmp_path)


def test_a_batch_beyond_memory_is_a_line(tmp_path: Path) -> None:
    with pytest.raises(NoRoom, match=r"weights and one batch of small need 3\.2e\+12 GB, but only "):
        job.write_arrays(SMALL, 10**20, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("macro", "env", "list"), "macro env: No space left on device"),
        (("reports", "show", RUN), "reports show: stdout: No space left on device"),
        (("reports", "show", "--csv", RUN), "reports show: stdout: No space left on device"),
    ],
)
def test_a_full_standard_output_is_a_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=house.ROOT,
            env=os.environ | {"KERNELGAP_STATE": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr.strip()) == (1, said)
