"""Forecasts of how long `macro whatif` and `macro advise` of a script take."""

from __future__ import annotations

import math

from kernels.devices.cpu import cores
from macro.predicting.judged import UNCHANGED
from macro.predicting.tried import PROCESSES
from macro.watching import ends

# Seconds on an idle machine: of a changed process that is inspected, of one in turns, of trials in an unchanged one
INSPECTED, STARTED, TRIED = 4.5, 3.0, 4.0


def changing(changes: int, together: bool, seconds: float, runs: int, busy: float) -> str:
    """Return the forecast of `macro whatif`; `together`: the changes are also timed all at once.

    `runs`: processes of each step; `busy`: how many times as long work takes as on an idle machine."""
    timed = (UNCHANGED + changes + together) * runs
    starts = ends.starting(busy) + busy * (_starts(changes, timed) + ends.INSIDE)
    processes = 1 + PROCESSES + changes + timed
    about = f"{seconds:.0f} s of measuring, {starts:.0f} s for starting {processes} processes and trials in them"
    return ends.total(seconds + starts, about, busy)


def advising(changes: int, best: int, sooner: float, seconds: float, busy: float) -> str:
    """Return the forecast of `macro advise`, whose budget includes the starts of processes.

    `best`: number of changes timed again; `sooner`: seconds of measuring before these."""
    timed = _starts(changes, UNCHANGED + changes) + _turns(UNCHANGED + best + 1)
    starts = ends.starting(busy) + busy * (timed + ends.INSIDE)
    more = ", more than --budget" if starts + sooner > seconds else ""
    return ends.total(max(seconds, starts + sooner), f"{starts:.0f} s of it for starting processes{more}", busy)


def _starts(inspected: int, timed: int) -> float:
    """Return the seconds of starting processes on an idle machine, as many at once as cores, and of trials."""
    return INSPECTED * math.ceil(inspected / cores()) + TRIED * PROCESSES + _turns(PROCESSES) + _turns(timed)


def _turns(processes: int) -> float:
    """Return the seconds of starting processes that take turns."""
    return STARTED * math.ceil(processes / cores())
