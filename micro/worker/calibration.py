"""Seconds of one launch, before a contest is measured: clock ramp, and launches per sample."""

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

ENOUGH = 1e-3  # seconds: a second call this long calibrates itself
EMPTY = 10_000  # empty launches in a sample
MOST = 100_000  # most launches of a calibrating sample
AGAIN = 2e-3  # seconds: shorter calls are calibrated by the median of several samples
RAMP, ALIKE, MEDIAN = 2.0, 0.01, 4  # most seconds of a ramp; spread of three alike medians; samples in a median
Pilot: TypeAlias = (
    "Callable[[Timed, int], visits.Timed]"  # times so many samples of an entry at one place, not captured
)


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
    """Seconds of one launch; for a short one the median of several samples, as any may be disturbed.

    `checked`: seconds of the check's launch, 0 if unknown."""
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
    """Median seconds of a launch in these samples, on a CPU without losses to other processes."""
    import numpy as np

    kept = 1 - timed.lost if device.kind.compiled else 1.0
    return float(np.median(timed.wall * kept / timed.launches))


def loop_seconds(running: int) -> float:
    """Seconds of the compiled loop between two launches, with an empty call: least of several samples.

    A kernel may hide some of them, so that they are an upper bound."""
    import numpy as np

    nowhere = [np.zeros(0, np.int64) for _ in range(MEDIAN)]
    plan = visits.Visits(np.zeros(MEDIAN, np.int32), nowhere, [EMPTY], [1], [False], [-1])
    return float(visits.compiled([visits.nothing()], plan, running, True).wall.min()) / EMPTY
