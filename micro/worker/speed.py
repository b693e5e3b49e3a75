"""Speed of a device across contests: overhead of two marks, its clock, and limits of the clock."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from kernels.pace import Pace

if TYPE_CHECKING:
    from kernels.devices.base import Device

IDLE = 2.0  # seconds after which a device's clock may have fallen, and is ramped up again


class Speed:
    """Clock and overhead of one device."""

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
        """Report whether the device was idle for so long that its clock may have fallen."""
        return time.perf_counter() - self._busy > IDLE

    def begin(self) -> None:
        """Query what a contest needs; in the first one also overhead of two marks, temperature and power."""
        self.state = {}  # an earlier contest's temperature and power are not this one's
        if self._measured:
            return
        self._measured = True
        self.overhead = self._device.overhead()
        self.state, began = self._device.state(), time.perf_counter()
        self._pace, self.asking = self._device.pace(), time.perf_counter() - began

    def slowed(self) -> dict[str, float]:
        """Return seconds since the last call with the clock held down, by cause; update the clock in `state`."""
        before, self._pace = self._pace, self._device.pace()
        if (clock := self._pace.megahertz) is not None:
            self.state = self.state | {"sm_megahertz": clock}
        self._busy = time.perf_counter()
        return {cause: s - before.slowed.get(cause, s) for cause, s in self._pace.slowed.items()}
