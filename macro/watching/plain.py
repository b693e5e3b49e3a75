"""Plain steps of two scripts in fresh pairs of processes: how far processes of the same script differ."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UsageError
from macro.watching import ends, rounds
from macro.watching.ends import Ended
from macro.watching.load import Load, children
from macro.watching.program import ScriptObserver
from macro.watching.recording import Recording, Watched
from macro.watching.script import Program, Script

READY, MOST = 2, 16  # batches that a worker of PyTorch's data loader prefetches; most uncounted steps of a turn
START = 10.0  # seconds until a pair of processes has taken its first steps and its memory is settled


@dataclass(frozen=True)
class Pair:
    """Plain steps of a process of each of two scripts, by the rounds in which both ran."""

    seconds: tuple[Sequence[float], Sequence[float]]  # of a step, by script and round
    load: Sequence[Load] = ()  # of the blocks of both
    ended: str = ""  # why a script ended early

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.seconds[0])


class PlainObserver(ScriptObserver):
    """Observer of a script's plain steps, without a tracer, in turns with other scripts."""

    def begin(self) -> None:
        """Start the script and wait until its first steps are over. Raises Ended, UsageError."""
        super().begin()
        self.torch = False  # else memory would settle with a tracer in it

    def settle(self) -> None:
        """Settle; also skip the steps whose batches data loader workers prefetched in other scripts' turns."""
        super().settle()
        self.skip = max(self.skip, min(MOST, READY * len(children(self.program.pid))))


class _OneOfPair(PlainObserver):
    """Observer of one of the two scripts of a gate, whose early end keeps the rounds until then."""

    def round(self, number: int, order: random.Random) -> None:
        """Run a plain block of steps."""
        self.seen = Watched()
        with self.record_end():
            self._p0()
        self.unread.append(self.seen)

    def over(self, end: Ended) -> None:
        """Record an early end of the script. Raises UsageError if the script cannot be watched."""
        if end.how == "usage":
            raise UsageError(end.reason)
        self.recording.ended = ends.late(end)


def pair_of(recordings: Sequence[Recording]) -> Pair:
    """Return the plain steps of the first process of each of two recordings."""
    processes = [recording.processes[0] for recording in recordings]
    a, b = (process.levels.get("P0", []) for process in processes)
    count = min(len(a), len(b))
    ended = next((f"{x.name}: {x.ended}" for x in recordings if x.ended), "")
    return Pair((a[:count], b[:count]), [block for process in processes for block in process.load], ended)


def run(scripts: Sequence[Script], seconds: float, number: int) -> Pair:
    """Run a fresh process of each script, in turns, for so many seconds. Raises SuiteError.

    Nothing that the scripts print is shown. `number` of the pair: seed of the order of starts and turns."""
    order = random.Random(number)
    looks: dict[int, _OneOfPair] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernelgap-gate-")))
        nothing = stack.enter_context(open(os.devnull, "wb"))
        with suppress(Ended):  # the rounds until then count
            for side in order.sample(range(len(scripts)), len(scripts)):
                program = Program(scripts[side], folder, nothing, nothing)
                stack.callback(program.close)
                looks[side] = _OneOfPair(scripts[side], program, lambda text: None)
                with looks[side].record_end():
                    looks[side].begin()
                    looks[side].settle()
            for _ in rounds.in_turns([looks[side] for side in sorted(looks)], seconds, order):
                pass
        for look in looks.values():
            look.finish()
            look.end()
    if len(looks) < len(scripts):
        return Pair(((), ()), ended=next(f"{look.script.name}: {look.recording.ended}" for look in looks.values()))
    return pair_of([looks[side].recording for side in sorted(looks)])


def forecast(pairs: int, seconds: float) -> str:
    """Return how long the pairs take, each with so many seconds of rounds."""
    return f"{pairs} pairs of processes for the gate, about {pairs * (START + seconds):.0f} s"
