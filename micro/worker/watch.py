"""Verified samples of one open contest: drawn before a batch of rounds, judged after it, with costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from kernels.errors import WrongResult
from micro.worker.counters import page_faults
from micro.worker.layout import Layout
from micro.worker.schedule import Schedule
from micro.worker.witness import Witness, prepared
from reports import stats

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Array
    from micro.worker.timed import Timed

UnderWay: TypeAlias = "Callable[[int], AbstractContextManager[None]]"


class Overwritten(Exception):
    """A wrong answer whose inputs have changed or were NaN: `error` may be another case's fault."""

    def __init__(self, error: WrongResult, case: int) -> None:
        self.error, self.case = error, case


class Watch:
    """The verified samples of a contest.

    `seen`: indices of verified cases; `under_way`: context that names the responsible case. `faults` and `seconds`:
    cost so far; `counts`: verified samples by case."""

    def __init__(self, device: Device, layout: Layout, seen: Collection[int], under_way: UnderWay) -> None:
        import numpy as np

        self.device, self.layout, self.seen, self.under_way = device, layout, frozenset(seen), under_way
        self._rng = np.random.default_rng()  # seeded by the system: unpredictable for kernels
        self._schedule = Schedule(self._rng)
        self.faults = 0
        self.counts: dict[int, int] = {}

    @property
    def seconds(self) -> float:
        return self._schedule.spent

    def looks(self, seconds: float) -> None:
        """Set the size of the first batch, for rounds of so many seconds."""
        self._schedule.looks(stats.looks(seconds)[0])

    def draw(
        self,
        entries: Sequence[Timed],
        which: Sequence[int],
        offsets: Sequence[Array],
        turns: Sequence[Sequence[int]],
        first: int,
    ) -> list[Witness]:
        """Draw the verified samples of a batch, whose samples are `which` of the entries, by rounds."""
        rounds = len(which) // len(entries)
        chosen = self._schedule.visits([e.case for e in entries if e.case in self.seen], first, rounds)
        witnesses: list[Witness] = []
        with self._paid():
            for v, entry in enumerate(entries[w] for w in which):
                if first + v // len(entries) in chosen.get(entry.case, ()):
                    with self.under_way(entry.case):
                        witnesses += self._visit(v, entry, offsets[v], turns[v])
        return witnesses

    def _visit(self, visit: int, entry: Timed, offsets: Array, turns: Sequence[int]) -> Iterator[Witness]:
        names = [x.name for x in entry.problem.operands()]
        launches = self._schedule.launches(entry.launches) if self.device.kind.compiled else [entry.launches - 1]
        self.counts[entry.case] = self.counts.get(entry.case, 0) + 1
        for launch in launches:
            turn = turns[launch] if len(turns) > 1 else turns[0]
            views = dict(zip(names, self.layout.views(entry, offsets, turn), strict=True))
            changes = bool(self._rng.integers(2))
            yield prepared(self.device, self._rng, entry, views, (visit, launch), changes)

    def judge(self, witnesses: Sequence[Witness], wrong: Callable[[int, WrongResult], None]) -> None:
        """Raise WrongResult for the first wrong answer, after a call of `wrong`.

        Raises Overwritten instead if its inputs were written to."""
        with self._paid():
            for witness in witnesses:
                with self.under_way(witness.entry.case):
                    try:
                        witness.judge()
                    except WrongResult as error:
                        if witness.overwritten:
                            raise Overwritten(error, witness.entry.case) from None
                        wrong(witness.entry.case, error)
                        raise

    def timed(self, seconds: float) -> None:
        """Add seconds of rounds, without their verification."""
        self._schedule.timed += seconds

    @contextmanager
    def _paid(self) -> Iterator[None]:
        began, faults = time.perf_counter(), page_faults()
        try:
            yield
        finally:
            self._schedule.spent += time.perf_counter() - began
            self._schedule.count = sum(self.counts.values())
            self.faults += page_faults() - faults
