"""Commands of macro, each in a process of its own and into a run file that stays: what is finished is not measured
again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kernels import state, suite
from micro.worker.process import die_with
from reports import store
from reports.record import Run

ROOT = Path(__file__).parents[2]
NOT_ALL = 1  # exit code of a command of which a part failed, or all
MISSING = 2  # exit code of a command that finds no framework
# Of what is not gone on with: it is of an older commit, or of other turns.
ANOTHER = ("made in another environment", "it holds other contests")


class Failed(Exception):
    """A command that ended otherwise than with 0: its last line, and whether a framework is missing."""

    def __init__(self, ran: subprocess.CompletedProcess[str]) -> None:
        lines = ran.stderr.strip().splitlines() or [f"it ends with exit code {ran.returncode}"]
        super().__init__(lines[-1])
        self.missing = ran.returncode == MISSING


def folder(name: str) -> Path:
    """Where a soak's run files stay; who empties it begins anew."""
    path = state.folder() / name
    path.mkdir(exist_ok=True)
    return path


def kept(words: Sequence[str], whole: Path) -> Run | None:
    """What a command of these words has measured into its file; none where that is not there, or another's."""
    try:
        run = store.read(whole)
    except store.Unreadable:
        return None
    asked = suite.typed("macro", *words, "-o")  # as a run file keeps it, but for its own name
    return run if run.environment.command.startswith(f"{asked} ") else None


def measured(
    words: Sequence[str], whole: Path, *, resumed: bool = False, complete: Callable[[Run], bool] = lambda run: False
) -> Run:
    """The file has its name as soon as it is whole. `resumed`: what was cut short is gone on with, unless it is
    another's, else begun anew; `complete`: whether the file of a command that ended with NOT_ALL is whole. Raises
    Failed."""
    part = whole.with_suffix(".part")
    if not (resumed and kept(words, part)):
        part.unlink(missing_ok=True)
    again = part.exists()
    ran = _ran(words, part, ["--resume"] * again)
    if again and ran.returncode == MISSING and any(words in ran.stderr for words in ANOTHER):
        part.unlink(missing_ok=True)
        ran = _ran(words, part, [])
    made = kept(words, part) if ran.returncode == NOT_ALL else None
    if ran.returncode and not (made and complete(made)):
        raise Failed(ran)
    part.replace(whole)
    return store.read(whole)


def _ran(words: Sequence[str], part: Path, again: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        suite.child("macro", *words, "-o", str(part), *again),
        cwd=ROOT,
        env=suite.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=partial(die_with, os.getpid()),  # nor does it go on beside what is measured next
    )
