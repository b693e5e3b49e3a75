"""Steps that grow or vary: what a program keeps from step to step, and inputs of different lengths."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

from macro.watching.recording import Watched
from reports.explanation import Growth, Spread

FEWEST, CHANCE = 6, 0.05  # blocks; probability that steps without growth pass the rank test
WORTH = 0.25  # growth while watching, as a share of the first steps
UNEQUAL = 0.3  # interquartile range over the median from which on steps vary


def growth(process: Watched) -> Growth | None:
    """Return how a process's plain steps grow with their number; None if they do not."""
    from scipy import stats

    x, y = process.at, [median(block) for block in process.plain]
    if len(x) != len(y) or len(x) < FEWEST:
        return None
    slope, _, low, high = map(float, stats.theilslopes(y, x, 0.95))
    first = median(b - slope * (a - x[0]) for a, b in zip(x, y, strict=True))
    total = slope * (x[-1] - x[0])
    if low <= 0 or stats.kendalltau(x, y).pvalue > CHANCE or total < WORTH * first:
        return None
    return Growth(slope, low, high, max(0.0, first), first + total, x[0], x[-1])


def without(process: Watched, slope: float) -> Watched:
    """Return the process with its plain steps' growth taken out, around their mean number."""
    middle = sum(process.at) / len(process.at)
    plain = [median(y) - slope * (x - middle) for x, y in zip(process.at, process.plain, strict=True)]
    return replace(process, levels={**process.levels, "P0": plain})


def level(values: Any, at: Sequence[int]) -> Any:
    """Return rounds × cells without their linear trend over `at`; the means stay."""
    import numpy as np

    x = np.array(at, dtype=float)[: len(values)]
    x -= x.mean()
    return values - np.outer(x, x @ values / (x @ x))


def where(phases: Mapping[str, Any], at: Sequence[int]) -> tuple[str, float]:
    """Return the phase that grows most, and its growth a step; `phases`: seconds by round."""
    import numpy as np

    x = np.array(at, dtype=float)
    slopes = {phase: float(np.polyfit(x[: len(y)], y, 1)[0]) for phase, y in phases.items()}
    phase = max(slopes, key=slopes.__getitem__, default="")
    return phase, slopes.get(phase, 0.0)


def spread(process: Watched) -> Spread | None:
    """Return the middle half of a process's plain steps, if they vary; with the operations of traced steps."""
    each = sorted(x for block in process.plain for x in block)
    if len(each) < 4 * FEWEST:
        return None
    low, middle, high = quantiles(each, n=4)
    if high - low < UNEQUAL * middle:
        return None
    starts = sorted(event.start for event in process.events)
    counts = [bisect.bisect(starts, end) - bisect.bisect_left(starts, start) for start, end, *_ in process.steps]
    fewest, most = (min(counts), max(counts)) if starts and counts else (0, 0)
    return Spread(low, high, fewest, most)
