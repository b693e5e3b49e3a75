"""What one launch takes, before a contest is measured: a GPU's clock ramped up, launches enough for a visit found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from micro.planning.protocol import LONG, VISIT
from micro.worker.timed import Timed, room

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from micro.worker import visits

TOLD = 1e-3  # seconds: the second call that takes as long tells enough of it
MOST = 100_000  # launches of a calibrating visit
RAMP, ALIKE, MEDIAN = 2.0, 0.01, 4  # seconds at most until three medians of so many visits are alike
Pilot: TypeAlias = "Callable[[Timed, int], visits.Timed]"  # so many visits of an entry at one place, not captured


def ramp(entry: Timed, pilot: Pilot) -> None:
    """Keep the device busy until its clock has settled: three medians in a row that are alike."""
    import numpy as np

    entry.launches, entry.warm = 1, 0
    medians: list[float] = []
    end = time.perf_counter() + RAMP
    while time.perf_counter() < end:
        medians.append(float(np.median(pilot(entry, MEDIAN).wall)))
        last = medians[-3:]
        if len(last) == 3 and max(last) <= min(last) * (1 + ALIKE):
            return


def calibrated(device: Device, entry: Timed, checked: float, pilot: Pilot) -> float:
    """Seconds of one launch. `checked`: those of the check's, 0 where none tells."""
    entry.launches, entry.warm, entry.call = 1, 0, 0.0 if checked < LONG else checked
    for _ in range(4 if device.kind.compiled else 3):  # a cold first call tells nothing
        times = pilot(entry, 1)
        took = float(times.wall[0]) / int(times.launches[0])
        most = MOST if device.kind.compiled else room(device, entry)
        entry.launches = max(1, min(most, math.ceil(VISIT / max(took, 1e-9))))
        if took > TOLD and entry.call:
            break
        entry.call = took
    return max(took, 1e-9)
