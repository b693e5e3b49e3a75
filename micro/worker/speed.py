"""Speed of a device across contests: timing overhead, clock, and canaries (fixed small kernels)."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernels.catalog import bounding, find
from kernels.ops.fma import Fma
from kernels.ops.stream import Stream
from kernels.pace import Pace
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Problem

SMALL = 4 << 20
# Ten chains in each of a multiprocessor's 512 threads are 160 warp instructions per step, four per clock (sm_90,
# sm_100), two on sm_80: 20,480 clocks, 10 µs at 2 GHz; 41,000 on sm_80.
WHOLE_STEPS = 512
IDLE = 2.0  # seconds after which a device's clock may have fallen, and is ramped up again


class Speed:
    """Clock of one device, and the overhead of timing on it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pace = Pace()
        self._measured = False
        self._busy = -math.inf  # time of the last batch
        self.overhead = 0.0  # seconds between two adjacent marks
        self.asking = 0.0  # seconds of a query of the clock
        self.state: dict[str, float] = {}

    @property
    def idle(self) -> bool:
        """Report whether the device was idle for so long that its clock may have fallen."""
        return time.perf_counter() - self._busy > IDLE

    def begin(self) -> None:
        """Begin a contest; query overhead, clock, temperature and power if it is the first."""
        self.state = {}  # an earlier contest's temperature and power are not this one's
        if self._measured:
            return
        self._measured = True
        self.overhead = self._device.overhead()
        self.state, began = self._device.state(), time.perf_counter()
        self._pace, self.asking = self._device.pace(), time.perf_counter() - began

    def slowed(self) -> dict[str, float]:
        """Return the seconds with a lowered clock since the last call, by cause; update `state`."""
        before, self._pace = self._pace, self._device.pace()
        if (clock := self._pace.megahertz) is not None:
            self.state = self.state | {"sm_megahertz": clock}
        self._busy = time.perf_counter()
        return {cause: s - before.slowed.get(cause, s) for cause, s in self._pace.slowed.items()}


def canaries(device: Device) -> list[tuple[Problem, Variant[Any]]]:
    """Return the canaries: multiply-adds of 10 to 30 µs, reads of 4 MiB and of four last-level caches.

    Operations that are no ceiling on this device are left out: their cost is unknown."""
    limits, kind = device.limits(), device.kind
    problems: list[Problem] = [Stream("read", SMALL), Stream("read", 4 * limits.usable_cache)]
    if "fma" in kind.ceilings:
        fma = Fma(kind.isas()[-1])
        problems.insert(0, replace(fma, steps=WHOLE_STEPS, processors=limits.cores) if kind.undivided else fma)
    return [
        (problem, device.adopt(find(problem.op, bounding(problem.op, kind.kernels))))
        for problem in problems
        if problem.op in kind.ceilings
    ]
