"""Tests of a gap: which of its causes, layers, phases and cells differ for certain.

The tests are one family. Causes, layers, phases and cells each have a part of the error, divided equally (Bonferroni);
a cause that differs passes its part on to its cells (inheritance procedure: Goeman and Finos, Stat. Appl. Genet. Mol.
Biol. 11(1), 2012). Each cell is tested by itself too, so that a large difference is not lost in the noise of the other
rows of its cause. Bars that are too small to report are not tested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from macro.explaining.attribute import Key
from macro.explaining.rows import OUTSIDE, Row
from reports import stats
from reports.explanation import RESIDUAL, Bar

# Chance that two equal steps have a bar of this kind, or a cell of a certain cause, that is reported to differ.
ERROR = {"cause": 0.02, "layer": 0.01, "phase": 0.01}
CELLS = 0.01  # chance that they have a cell that is reported to differ by itself
LEAST = 0.01  # of the larger step: smaller differences are in the tables alone


@dataclass(frozen=True)
class Seconds:
    """Seconds of two steps by cell."""

    keys: Sequence[Key]
    means: Sequence[Sequence[float]]  # by side and cell
    differences: Sequence[Any]  # A less B for each pair of processes, rounds × cells
    least: float  # that is worth reporting

    def large(self, i: int) -> bool:
        """Return whether cell `i` takes long enough on one side to be worth reporting."""
        return max(side[i] for side in self.means) >= self.least


def estimate(differences: Sequence[Any]) -> stats.Estimate:
    """Estimate a difference in seconds from the rounds of each pair of processes.

    The error comes from the pairs; from the rounds of a single pair it holds within these processes only. No round is
    left out, so that cells add up to the gap."""
    if min(map(len, differences)) < 2:
        center = sum(float(x.mean()) for x in differences) / len(differences)
        return stats.Estimate(center, ((1.0, math.inf),))
    return stats.generations(differences, trimmed=0.0)


def ends(difference: stats.Estimate) -> tuple[float, float]:
    """Return the ends of the 95 % interval."""
    half = difference.half(1 - stats.SHOWN)
    return difference.center - half, difference.center + half


def time_ends(seconds: stats.Estimate) -> tuple[float, float]:
    """Return the 95 % interval of a time, which is never below zero."""
    low, high = ends(seconds)
    return max(0.0, low), high


def differs(difference: stats.Estimate, error: float) -> bool:
    """Return whether zero is outside the interval that misses with this probability."""
    return abs(difference.center) > difference.half(error)


def bars(cells: Seconds, by_name: Mapping[str, Row], what: str) -> list[Bar]:
    """Return the gap by cause (column), layer or phase, the largest first."""
    members: dict[str, list[int]] = {}
    for i, key in enumerate(cells.keys):
        members.setdefault(name(key, by_name, what), []).append(i)
    times = {name: [sum(side[i] for i in at) for side in cells.means] for name, at in members.items()}
    tested = [name for name, seconds in times.items() if max(seconds) >= cells.least]
    waterfall = []
    for bar, at in members.items():
        difference = estimate([x[:, at].sum(axis=1) for x in cells.differences])
        sure = bar in tested and differs(difference, ERROR[what] / len(tested))
        waterfall.append(Bar(bar, times[bar][0], times[bar][1], *ends(difference), sure))
    return sorted(waterfall, key=lambda bar: -abs(bar.gap))


def errors(cells: Seconds, causes: Sequence[Bar]) -> list[float]:
    """Return the error of each cell's test: its part, and what a certain cause passes on to it; or 0."""
    certain = {bar.name for bar in causes if bar.sure}
    left = ERROR["cause"] / max(1, sum(max(bar.a, bar.b) >= cells.least for bar in causes))
    tested = Counter(column for i, (_, column) in enumerate(cells.keys) if cells.large(i))
    alone = CELLS / max(1, tested.total())
    return [
        (alone + left / tested[column] * (column in certain)) if cells.large(i) else 0.0
        for i, (_, column) in enumerate(cells.keys)
    ]


def residual(plain: Sequence[Sequence[Any]], cells: Sequence[Sequence[Any]], left: Sequence[float]) -> Bar:
    """Return what cells leave of plain steps, as a bar that is not tested.

    `plain`: seconds by side, process and round; `cells`: the same, rounds × cells; `left`: the mean by side. The
    interval is None where plain steps and cells have different rounds."""
    pairs = [list(zip(*side, strict=True)) for side in zip(plain, cells, strict=True)]
    if any(len(steps) != len(x) for side in pairs for steps, x in side):
        return Bar(RESIDUAL, left[0], left[1], None, None, False)
    a, b = ([steps - x.sum(axis=1) for steps, x in side] for side in pairs)
    low, high = ends(estimate([x - y for x, y in zip(a, b, strict=True)]))
    return Bar(RESIDUAL, left[0], left[1], low, high, False)


def name(key: Key, by_name: Mapping[str, Row], what: str) -> str:
    """Return the name of the bar that a cell belongs to."""
    rows = [by_name[name] for name in key[0] if name in by_name]
    if what == "cause":
        return key[1]
    names = [row.layer or row.name for row in rows] if what == "layer" else [row.phase for row in rows]
    return " + ".join(dict.fromkeys(names or [OUTSIDE]))
