"""A worker's host that runs nothing: every time is scripted by the case's name, every answer is right."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.catalog import find
from kernels.devices.fake import script
from micro.worker.check import Passed
from micro.worker.counters import Counters
from micro.worker.messages import ContestCost, PreparedCase, RoundBatch

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Array
    from micro.planning.contest import Case

SPREAD = 0.6  # the slowest case takes so much more than the script of the fake device says
NOISE = 0.004
LONGEST = 1.0  # second a call
COST = 1e-3  # seconds of a round
MOST = 1 << 14  # rounds of a contest


class Clock:
    """Stands for the module `time` where rounds are budgeted: only rounds take time."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


CLOCK = Clock()


@cache
def noise(name: str) -> Array:
    """Return the factors of a case's rounds."""
    import numpy as np

    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).lognormal(0, NOISE, MOST)


def seconds(case: Case) -> float:
    """Return the seconds of one use of a case: 100 GFLOP/s and 10 GB/s of what it executes; ceilings are faster."""
    if case.role == "ceiling":
        return 0.4 * script(case.variant, case.problem)
    work = find(case.problem.op, case.variant).executed(case.problem)
    digest = hashlib.sha256(case.name.encode()).digest()
    return (1e-6 + work.flops / 100e9 + work.bytes / 10e9) * (1 + SPREAD * digest[1] / 255)


class ScriptedHost:
    """Serves every request of a driver from the script."""

    def __init__(self, device: Device, cell: int) -> None:
        self.cases: tuple[Case, ...] = ()

    def prepare(self, case: Case) -> PreparedCase:
        return PreparedCase(0.001, 1, 0, None, None)

    def check(self, case: Case, seed: int, evidence: Path | None = None, keep: bool = False) -> Passed:
        return Passed(1e-7, 1e-5)

    def names(self, cases: Sequence[Case]) -> list[tuple[str, ...]]:
        return [() for _ in cases]

    def open(self, cases: Sequence[Case], mine: Sequence[bool], seed: int) -> list[list[float]]:
        self.cases = tuple(cases)
        return [[seconds(case)] for case in cases]

    def calibrate(self, calls: Sequence[Sequence[float]], visit: float) -> ContestCost:
        times = [min(sum(call), LONGEST) for call in calls]
        return ContestCost(tuple(1 for _ in times), tuple(times), COST)

    def run_rounds(self, first: int, rounds: int, only: int | None = None, canary: bool = True) -> RoundBatch:
        import numpy as np

        times = np.zeros((rounds, len(self.cases)))
        CLOCK.now += COST * rounds
        for at in range(len(self.cases)) if only is None else [only]:
            times[:, at] = seconds(self.cases[at]) * noise(self.cases[at].name)[first : first + rounds]
        nothing, ones = np.zeros(times.shape), (1,) * len(self.cases)
        return RoundBatch(
            times, times, nothing, nothing.astype(int), {}, Counters(), 0, COST * rounds, launches=ones, witnesses=ones
        )

    def close(self) -> None:
        self.cases = ()

    def running(self) -> int:
        return -1
