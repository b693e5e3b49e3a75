"""Figures derived from a run of micro/memory.py: costs of a page, the knee of a latency curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernels.faults import Cost, Faults
from micro.planning.contest import LONG, parse
from reports import record, stats
from reports.record import Run

WORTH_A_KNEE = 1.5  # main memory over the caches before it: with less there is nothing to find
PLATEAU = 4  # times the second level: end of the plateau on both machines examined


def timed(contest: record.Contest) -> Iterator[tuple[Any, record.Result]]:
    """Yield measured cases that have a time, with their results."""
    for result in contest.results:
        if result.role == "measured" and result.seconds is not None:
            yield parse(result.name), result


def prepared_per_launch(result: record.Result) -> bool:
    """Report whether each launch had fresh memory: samples of one launch that is not LONG."""
    return result.launches == 1 and result.seconds is not None and result.seconds.median <= LONG


def difference(first: record.Result, second: record.Result) -> Cost | None:
    """Second minus first in seconds of one use, paired in rounds; None for too few rounds."""
    import numpy as np

    lost = set(first.rejected) | set(second.rejected)
    pairs = zip(first.rounds, first.samples, second.samples, strict=True)
    kept = [b - a for at, a, b in pairs if at not in lost]
    scale = float(np.max(np.abs(kept), initial=0.0)) or 1.0
    # Several batches share the error, as in comparisons. The estimator exponentiates.
    interval = stats.interval(np.array(kept) / scale, (1 - stats.SHOWN) / stats.SHARE)
    if interval is None:
        return None
    return Cost(*(scale * math.log(x) for x in (interval.center, interval.low, interval.high)))


def each(cost: Cost, count: int) -> Cost:
    """Divide a cost by a count."""
    ends = [None if x is None else x / count for x in (cost.low, cost.high)]
    return Cost(cost.seconds / count, *ends)


def faults(run: Run) -> Faults | None:
    """Return costs of a page from contests with first touches; None if there are none."""
    fault: dict[int, Cost] = {}
    unmap: dict[int, Cost] = {}
    for contest in run.contests:
        if not contest.contest.startswith("fault/"):
            continue
        rows = {case.problem.memory: (case.problem, result) for case, result in timed(contest)}
        if not {"touched", "fresh"} <= rows.keys() or not all(
            prepared_per_launch(result) for _, result in rows.values()
        ):
            continue
        problem, fresh = rows["fresh"]
        if (cost := difference(rows["touched"][1], fresh)) is not None:
            fault[problem.page] = each(cost, problem.pages)
        if "mapped" in rows and (cost := difference(fresh, rows["mapped"][1])) is not None:
            unmap[problem.page] = each(cost, problem.pages)
    if not fault:
        return None
    return Faults(run.environment.started, run.environment.digest, fault, unmap)


@dataclass(frozen=True)
class Knee:
    """End of the caches in a latency curve."""

    low: int  # bytes of the last working set in cache
    high: int  # the next working set that was measured
    at: float  # bytes at which the latency passes `middle`, interpolated on a logarithmic scale
    plateau: float  # seconds of a load in the caches
    memory: float  # seconds of a load in main memory

    @property
    def middle(self) -> float:
        return math.sqrt(self.plateau * self.memory)


def knee(curve: Mapping[int, float], second_level: int) -> Knee | None:
    """Find where load latency crosses from the caches' plateau to main memory, by working set.

    The threshold is the geometric mean of both. None for a curve without a step, or without a point on either side.
    Plateau: from the second level to four times its size. Main memory: the largest third of the sizes above. The cut
    has the fewest points on its wrong side, so that an outlier does not move it."""
    above = sorted(size for size in curve if size > second_level)
    flat = [size for size in above if size <= PLATEAU * second_level]
    far = [size for size in above if size > PLATEAU * second_level]
    if not flat or not far:
        return None
    plateau = median(curve[size] for size in flat)
    memory = median(curve[size] for size in far[-max(1, len(far) // 3) :])
    if memory < WORTH_A_KNEE * plateau:
        return None
    middle = math.sqrt(plateau * memory)
    cut = min(range(1, len(above)), key=lambda i: _astray([curve[size] > middle for size in above], i))
    low, high = above[cut - 1], above[cut]
    return Knee(low, high, _crossing(low, high, curve[low], curve[high], middle), plateau, memory)


def _astray(over: Sequence[bool], cut: int) -> int:
    """Count points above the middle before the cut, or below it after the cut."""
    return sum(over[:cut]) + sum(not x for x in over[cut:])


def _crossing(low: int, high: int, before: float, behind: float, middle: float) -> float:
    share = 0.5  # of the way, where one of the two is an outlier
    if before < middle < behind:
        share = math.log(middle / before) / math.log(behind / before)
    return low * math.exp(share * math.log(high / low))
