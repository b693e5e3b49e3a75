"""Forecasts of how long `macro whatif` and `macro advise` of a script take."""

from __future__ import annotations

import math

from kernels.devices.cpu import cores
from macro.predicting.judged import UNCHANGED
from macro.watching import ends

INSPECTED, STARTED = 4.5, 2.5  # seconds on an idle machine: of a changed process that is inspected; of one in turns


def changing(changes: int, together: bool, seconds: float, busy: float) -> str:
    """Return the forecast of `macro whatif`; `together`: the changes are also timed all at once.

    `busy`: how many times as long work takes as on an idle machine."""
    timed = UNCHANGED + changes + together
    starts = ends.starting(busy) + busy * (_starts(changes, timed) + ends.INSIDE)
    about = f"{seconds:.0f} s of measuring, {starts:.0f} s for starting {1 + changes + timed} processes"
    return ends.total(seconds + starts, about, busy)


def advising(changes: int, best: int, sooner: float, seconds: float, busy: float) -> str:
    """Return the forecast of `macro advise`, whose budget includes the starts of processes.

    `best`: number of changes timed again; `sooner`: seconds of measuring before these."""
    timed = _starts(changes, UNCHANGED + changes) + _starts(0, UNCHANGED + best + 1)
    starts = ends.starting(busy) + busy * (timed + ends.INSIDE)
    more = ", more than --budget" if starts + sooner > seconds else ""
    return ends.total(max(seconds, starts + sooner), f"{starts:.0f} s of it for starting processes{more}", busy)


def _starts(inspected: int, timed: int) -> float:
    """Return the seconds of starting processes on an idle machine, as many at once as there are cores."""
    return INSPECTED * math.ceil(inspected / cores()) + STARTED * math.ceil(timed / cores())
