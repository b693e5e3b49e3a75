"""How fast a device runs, from contest to contest: what two marks alone take, its clock, and what held it down."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from kernels.pace import Pace

if TYPE_CHECKING:
    from kernels.devices.base import Device

IDLE = 2.0  # seconds after which a device's clock may have fallen, and is ramped up again


class Speed:
    """Of one device. `state`: its clock, and in its first contest temperature and power; `asking`: seconds that asking
    for its pace takes."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pace = Pace()
        self._measured = False
        self._busy = -math.inf  # when it was last timed
        self.overhead = 0.0
        self.asking = 0.0
        self.state: dict[str, float] = {}

    @property
    def idle(self) -> bool:
        """Whether it has stood still for so long that its clock may have fallen."""
        return time.perf_counter() - self._busy > IDLE

    def begin(self) -> None:
        """Ask what a contest needs; in the first one what two marks alone take, temperature and power too."""
        self.state = {}  # an earlier contest's temperature and power are not this one's
        if self._measured:
            return
        self._measured = True
        self.overhead = self._device.overhead()
        self.state, began = self._device.state(), time.perf_counter()
        self._pace, self.asking = self._device.pace(), time.perf_counter() - began

    def slowed(self) -> dict[str, float]:
        """Seconds since this was last asked, by cause, for which the clock was held down; the clock goes into the
        state."""
        before, self._pace = self._pace, self._device.pace()
        if (clock := self._pace.megahertz) is not None:
            self.state = self.state | {"sm_megahertz": clock}
        self._busy = time.perf_counter()
        return {cause: s - before.slowed.get(cause, s) for cause, s in self._pace.slowed.items()}
