"""The host: server of one device's requests, in a worker process or in the driver's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from micro.planning.contest import Case
from micro.worker.arenas import Arenas
from micro.worker.contest import OpenContest, WorkerContext
from micro.worker.kernels import Kernels
from micro.worker.messages import ContestCost, PreparedCase, RoundBatch
from micro.worker.speed import Speed

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from micro.worker.check import Passed


class Host:
    """Server of one device's requests, with its kernels and the open contest.

    `cell`: address of the 32-bit cell that holds the case under way; 0: no other process reads it."""

    def __init__(self, device: Device, cell: int) -> None:
        self.device = device
        self.kernels = Kernels(device)
        self._spare = ctypes.c_int32(-1)
        self.bench = WorkerContext(
            self.kernels, Arenas(device), Speed(device), cell or ctypes.addressof(self._spare), {}
        )
        self.kernels.cell = self.bench.cell
        self.contest: OpenContest | None = None

    def running(self) -> int:
        """Return the case under way, or −1."""
        return int(ctypes.c_int32.from_address(self.bench.cell).value)

    def prepare(self, case: Case) -> PreparedCase:
        """Compile, plan, pack and allocate for a case. Raises whatever the kernel raises."""
        return self.kernels.prepare(case)

    def check(self, case: Case, seed: int, evidence: Path | None = None, keep: bool = False) -> Passed:
        """Check a case against float64 and return its worst error. Raises WrongResult."""
        return self.kernels.check(case, seed, evidence, keep)

    def names(self, cases: Sequence[Case]) -> list[tuple[str, ...]]:
        """Trace a launch of each case and return its kernels' names; time nothing here afterwards."""
        return self.kernels.names(cases)

    def open(self, cases: Sequence[Case], mine: Sequence[bool], seed: int) -> list[list[float]]:
        """Lay out a contest; return the seconds of one launch of each part of each case that is `mine`."""
        self.contest = None  # frees the previous contest's memory before the next contest is laid out
        self.contest = OpenContest(self.bench, cases, mine, seed)
        return self.contest.calls()

    def calibrate(self, calls: Sequence[Sequence[float]], visit: float) -> ContestCost:
        """Choose launches per sample and placement from launch times. `visit`: target of a sample, in s."""
        return self._open().calibrate(calls, visit)

    def run_rounds(self, first: int, rounds: int, only: int | None = None, canary: bool = True) -> RoundBatch:
        """Run rounds of the open contest. `only`: a single case, for workers that take turns."""
        return self._open().run_rounds(first, rounds, only, canary)

    def close(self) -> None:
        """Release the contest's cases and what they hold; keep the arenas for the next contest."""
        self.contest = None
        self.kernels.close()

    def _open(self) -> OpenContest:
        if self.contest is None:
            raise AssertionError("no contest is open")
        return self.contest
