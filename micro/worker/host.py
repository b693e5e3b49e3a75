"""The server of one device's requests, in a worker process or in this one."""

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
    """Kernels of one device, and the open contest.

    `cell`: address of the 32-bit cell that holds the case under way; 0: no watcher."""

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
        """Compile, plan, pack, allocate. Raises whatever the kernel raises."""
        return self.kernels.prepare(case)

    def check(self, case: Case, seed: int, evidence: Path | None = None, keep: bool = False) -> Passed:
        """Compare one launch for each probe with float64. Raises WrongResult."""
        return self.kernels.check(case, seed, evidence, keep)

    def names(self, cases: Sequence[Case]) -> list[tuple[str, ...]]:
        """Return the device's names of the kernels of each case; this process must time nothing afterwards."""
        return self.kernels.names(cases)

    def open(self, cases: Sequence[Case], mine: Sequence[bool], seed: int) -> list[list[float]]:
        """Lay out a contest; return seconds of one launch of each part of each case that is `mine`."""
        self.contest = None  # what it holds is free before the next one is laid out
        self.contest = OpenContest(self.bench, cases, mine, seed)
        return self.contest.calls()

    def calibrate(self, calls: Sequence[Sequence[float]], visit: float) -> ContestCost:
        """Decide how to run the open contest, from launch times. `visit`: seconds of a sample."""
        return self._open().calibrate(calls, visit)

    def run_rounds(self, first: int, rounds: int, only: int | None = None, canary: bool = True) -> RoundBatch:
        """Run rounds of the open contest. `only`: a single case, for workers that take turns."""
        return self._open().run_rounds(first, rounds, only, canary)

    def close(self) -> None:
        """Forget the contest's cases and what they hold; the arenas stay."""
        self.contest = None
        self.kernels.close()

    def _open(self) -> OpenContest:
        if self.contest is None:
            raise AssertionError("no contest is open")
        return self.contest
