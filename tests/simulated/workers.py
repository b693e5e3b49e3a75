"""Stand-ins for the parts of a command: its workers in this process, a crew whose rounds are written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels.devices.fake import Fake
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Case, Contest
from micro.worker.counters import Counters
from micro.worker.messages import ContestCost, RoundBatch
from reports import record


class Here:
    """The workers of a command where there is one, in this process."""

    def __init__(self, serves: Any) -> None:
        self.serves = serves

    @staticmethod
    def key(case: Case) -> tuple[int]:
        return (1,)

    def get(self, key: tuple[int]) -> Any:
        return self.serves

    alive = get

    def drop(self, key: tuple[int]) -> None:
        pass


def run(serves: Any, contest: Contest, seconds: float = 10.0) -> record.Contest:
    """The contest's record, measured by `serves`."""
    workers: Any = Here(serves)
    limits = Fake().limits()
    runner = Runner(Checks(workers), {"cpu": limits, "fake": limits}, History("none"))
    return runner.run(contest, seconds, Budget(seconds))


def measured(told: record.Contest) -> Sequence[record.Result]:
    return [result for result in told.results if result.role == "measured"]


class Scripted:
    """A crew whose every round is written down: `row(number)` gives wall, cpu and lost of each case."""

    def __init__(
        self,
        cases: Sequence[Case],
        opened: ContestCost,
        row: Callable[[int], tuple[Sequence[float], Sequence[float], Sequence[float]]],
        most: int = 5000,
    ) -> None:
        self.cases, self.opened, self.row = tuple(cases), opened, row
        self.looks, self.canaries, self.most = 0, 0, most

    def open(self, patience: float) -> ContestCost:
        return self.opened

    def run_rounds(self, first: int, rounds: int, patience: float, canary: bool = True) -> RoundBatch:
        import numpy as np

        self.looks, self.canaries = self.looks + 1, self.canaries + canary
        assert self.looks < self.most, "it goes on for ever"
        wall, cpu, lost = (np.array(x, float) for x in zip(*map(self.row, range(first, first + rounds))))  # noqa: B905
        return RoundBatch(wall, cpu, lost, np.zeros(wall.shape, int), {}, Counters(), 0, 0.0)
