"""Processes of a user's script whose plain steps are timed, untraced, in turns with other processes."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import IO, TypeVar

from kernels.libs import preload
from macro.changes.base import Step
from macro.predicting.judged import Say
from macro.watching import ends
from macro.watching.ends import Ended
from macro.watching.plain import PlainObserver
from macro.watching.program import ScriptObserver
from macro.watching.recording import Watched
from macro.watching.regular import regular
from macro.watching.script import Program, Script

Watching = TypeVar("Watching", bound=ScriptObserver)


def script(step: Step, seconds: float) -> Script:
    """Return the program with the step's heap, threads and variables, to be watched for `seconds`."""
    assert step.script is not None
    setting = step.setting
    variables = {**step.script.variables, **setting.knobs.get("variables", {}), **preload.variables(setting.preload)}
    threads = setting.threads or None  # 0: as the program sets them
    changed = replace(step.script, heap=setting.heap, threads=threads, variables=variables, seconds=seconds)
    return replace(changed, trials=step.trials)


class Plain(PlainObserver):
    """A program of which only plain (unwatched) steps are timed."""

    gone: str | None = None  # how the program ended by itself, if it did

    def round(self, number: int, order: random.Random) -> None:
        self.seen = Watched(rounds=[number] * self.count)
        try:
            self.last = self.undisturbed(self.count)
            self.level("P0", self.plain(self.last))
            self.unread.append(self.seen)
        except Ended as end:
            self.gone = ends.late(end)

    def kept(self, before: Sequence[float], blocks: int) -> float | None:
        """Keep freed memory from now on; return the ratio of a step's times; None: malloc refuses. Raises Ended.

        `before`: seconds of a step in earlier plain blocks, to which as many are added as follow."""
        before = [*before, *(self._plain_block() for _ in range(blocks))]
        if not self.keep_freed():
            return None
        return median(self._plain_block() for _ in range(blocks)) / median(before)

    def _plain_block(self) -> float:
        return fmean(regular(self.block(self.count).each(self.one_thread)))

    def timed(self) -> dict[str, float]:
        """Return the last round as a block of an entry."""
        return {"wall": self.last.seconds(False), "cpu": self.last.seconds(True), "blocked": 0.0}


@contextmanager
def place_of() -> Iterator[tuple[Path, tuple[IO[bytes], IO[bytes]]]]:
    """Yield a temporary folder, and null streams for the output of programs that run at once."""
    with tempfile.TemporaryDirectory(prefix="kernelgap-whatif-") as name, open(os.devnull, "wb") as nowhere:
        yield Path(name), (nowhere, nowhere)


def started(
    kind: type[Watching], source: Script, folder: Path, streams: tuple[IO[bytes], IO[bytes]], stack: ExitStack, say: Say
) -> Watching:
    """Start a program; return its untraced observer after the first steps. Raises SuiteError, Ended."""
    program = Program(source, folder, *streams)
    stack.callback(program.close)
    look = kind(source, program, say)
    with look.record_end():
        if kind is not Plain:
            look.sample(folder, stack)
        look.begin()
    look.torch = False
    return look
