"""Commands of macro in processes of their own, whose run files stay: what is finished is not measured again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernels import state, suite
from micro.command.figure import Promise
from micro.worker.process import die_with
from reports import attribution, store
from reports.explanation import Explanation
from reports.record import Run

ROOT = Path(__file__).parents[2]
PARTLY, MISSING = 1, 2  # exit codes of macro: a part of a command failed; a framework is not installed
ANOTHER = ("made in another environment", "it holds other contests")  # messages of a run that cannot be resumed


class Failed(Exception):
    """A command that ended otherwise than with 0: its last line, and whether a framework is missing."""

    def __init__(self, ran: subprocess.CompletedProcess[str]) -> None:
        lines = ran.stderr.strip().splitlines() or [f"it ends with exit code {ran.returncode}"]
        super().__init__(lines[-1])
        self.missing = ran.returncode == MISSING


def folder(name: str) -> Path:
    """Return the folder in which a campaign's run files stay; to begin anew, empty it."""
    path = state.folder() / name
    path.mkdir(exist_ok=True)
    return path


def kept(words: Sequence[str], path: Path) -> Run | None:
    """Return what a command of these words measured into its file; None if there is none, or another command's."""
    try:
        run = store.read(path)
    except store.Unreadable:
        return None
    command = suite.typed("macro", *words, "-o")  # as a run file keeps it, but for its own name
    return run if run.environment.command.startswith(f"{command} ") else None


def run(
    words: Sequence[str], path: Path, *, resumed: bool = False, complete: Callable[[Run], bool] = lambda run: False
) -> Run:
    """Return the run of `python -m macro WORDS` from its file, which is measured where it is not there.

    The file has its name only when it is complete. `resumed`: an interrupted run of the same command is resumed.
    `complete`: whether the file of a command that ended with PARTLY is complete. Raises Failed.
    """
    if finished := kept(words, path):
        return finished
    part = path.with_suffix(".part")
    if not (resumed and kept(words, part)):
        _clear(part)
    again = part.exists()
    ran = _ran(words, part, ["--resume"] * again)
    if again and ran.returncode == MISSING and any(text in ran.stderr for text in ANOTHER):
        _clear(part)
        ran = _ran(words, part, [])
    partial_run = kept(words, part) if ran.returncode == PARTLY else None
    if ran.returncode and not (partial_run and complete(partial_run)):
        raise Failed(ran)
    part.replace(path)
    return store.read(path)


@dataclass(frozen=True)
class Pair:
    """Two sides that `macro explain` compares, whose difference is known."""

    title: str
    path: Path  # of its run file
    words: Sequence[str]
    judge: Callable[[Explanation], tuple[bool, str]]  # whether the explanation is right, and its figure's text


def explained(name: str, pairs: Sequence[Pair], each: float) -> Generator[Promise, None, list[bool]]:
    """Yield a forecast, then a figure for each pair, kept or measured now; return which are right. Raises Failed."""
    yield forecast(name, {pair.path: pair.words for pair in pairs}, each)
    right = []
    for pair in pairs:
        held, text = pair.judge(attribution.of(run(pair.words, pair.path))[0])
        right.append(held)
        yield Promise(pair.title, text, "", True)
    return right


def forecast(name: str, commands: Mapping[Path, Sequence[str]], each: float) -> Promise:
    """Return how many commands, by their files, are left to measure, and about how long they take in seconds."""
    left = sum(kept(words, path) is None for path, words in commands.items())
    where = next(iter(commands)).parent
    text = f"{left} of {len(commands)} are to be measured, about {left * each / 60:.0f} min; run files stay in {where}"
    return Promise(name, text, "", True)


def _clear(part: Path) -> None:
    """Remove an interrupted run file and the recordings beside it, which would be refused."""
    part.unlink(missing_ok=True)
    for side in ("", "-a", "-b"):
        part.with_name(f"{part.stem}{side}.kg").unlink(missing_ok=True)


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
