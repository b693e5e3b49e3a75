"""Calibration before a contest: clock ramp-up, and the seconds of one launch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from micro.planning.contest import LONG, VISIT
from micro.worker import visits
from micro.worker.timed import Timed, room

if TYPE_CHECKING:
    from kernels.devices.base import Device

ENOUGH = 1e-3  # seconds: a second call that takes longer needs no further calibration
EMPTY = 10_000  # empty launches in a sample
MOST = 100_000  # most launches of a calibrating sample
AGAIN = 2e-3  # seconds: shorter calls are calibrated by the median of several samples
RAMP, ALIKE, MEDIAN = 2.0, 0.01, 4  # most seconds of a ramp; spread of settled medians; samples in a median
Pilot: TypeAlias = (
    "Callable[[Timed, int], visits.Timed]"  # times so many samples of an entry at one placement, without a graph
)


def ramp(entry: Timed, pilot: Pilot) -> None:
    """Keep the device busy until its clock settles: until three successive medians agree to ALIKE."""
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
    """Return the seconds of one launch; for short calls on a CPU, the median of several samples.

    `checked`: seconds of the launch that checked the case, 0 if unknown."""
    entry.launches, entry.warm, entry.call = 1, 0, 0.0 if checked < LONG else checked
    for _ in range(4 if device.kind.compiled else 3):  # the first call is cold, and does not count
        took = _took(device, pilot(entry, 1))
        most = MOST if device.kind.compiled else room(device, entry)
        entry.launches = max(1, min(most, math.ceil(VISIT / max(took, 1e-9))))
        if took > ENOUGH and entry.call:
            break
        entry.call = took
    if device.kind.compiled and took < AGAIN:
        took = _took(device, pilot(entry, MEDIAN + 1))
    return max(took, 1e-9)


def _took(device: Device, timed: visits.Timed) -> float:
    """Median seconds of one launch over these samples; on a CPU, less the time lost to others."""
    import numpy as np

    kept = 1 - timed.lost if device.kind.compiled else 1.0
    return float(np.median(timed.wall * kept / timed.launches))


def loop_seconds(running: int) -> float:
    """Return the overhead of the compiled loop per launch in seconds, the least of several samples.

    It is an upper bound, as the loop may overlap with a kernel."""
    import numpy as np

    nowhere = [np.zeros(0, np.int64) for _ in range(MEDIAN)]
    plan = visits.Visits(np.zeros(MEDIAN, np.int32), nowhere, [EMPTY], [1], [False], [-1])
    return float(visits.compiled([visits.nothing()], plan, running, True).wall.min()) / EMPTY
