"""What of a gap is certain: causes, layers and phases, cells by themselves, and the cells inside a cause that is.

They are one family of tests. Causes, layers, phases and cells have a part of the error each, in it every one an equal
one (Bonferroni), and a cause that differs leaves its own to its cells beside (the inheritance procedure: Goeman and
Finos, Stat. Appl. Genet. Mol. Biol. 11(1), 2012). By itself a row that differs by much is not lost in the noise of all
others of its cause. What is too small for a word is not tested.
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

# Chance that two equal steps have a bar of this kind, or for causes a cell of one, that is said to differ.
ERROR = {"cause": 0.02, "layer": 0.01, "phase": 0.01}
CELLS = 0.01  # … that they have a cell by itself that is
LEAST = 0.01  # of the larger step: smaller differences are in the tables alone


@dataclass(frozen=True)
class Seconds:
    """Two steps, cell by cell. `means`: seconds by side and cell; `differences`: of each pair of processes, seconds of
    A less B, rounds × cells; `least`: seconds that are worth a word."""

    keys: Sequence[Key]
    means: Sequence[Sequence[float]]
    differences: Sequence[Any]
    least: float

    def large(self, i: int) -> bool:
        """Whether cell `i` takes so long on one side that it can be worth a word."""
        return max(side[i] for side in self.means) >= self.least


def estimate(differences: Sequence[Any]) -> stats.Estimate:
    """Of a difference, seconds, round by round of each pair of processes: the pairs are what its error comes from; of
    one pair its rounds, and it holds within these processes. No round is left out: cells add up to the gap."""
    if min(map(len, differences)) < 2:
        center = sum(float(x.mean()) for x in differences) / len(differences)
        return stats.Estimate(center, ((1.0, math.inf),))
    return stats.generations(differences, trimmed=0.0)


def ends(difference: stats.Estimate) -> tuple[float, float]:
    """Of a 95 % interval."""
    half = difference.half(1 - stats.SHOWN)
    return difference.center - half, difference.center + half


def time_ends(seconds: stats.Estimate) -> tuple[float, float]:
    """Return the 95 % interval of a time, which is never below zero."""
    low, high = ends(seconds)
    return max(0.0, low), high


def differs(difference: stats.Estimate, error: float) -> bool:
    """Whether zero is outside the interval that misses with this probability."""
    return abs(difference.center) > difference.half(error)


def bars(cells: Seconds, by_name: Mapping[str, Row], what: str) -> list[Bar]:
    """The gap by cause (column), layer or phase, the largest first."""
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
    """Of each cell's test: its own share, and that of what its cause leaves it; 0 where there is nothing to test."""
    certain = {bar.name for bar in causes if bar.sure}
    left = ERROR["cause"] / max(1, sum(max(bar.a, bar.b) >= cells.least for bar in causes))
    tested = Counter(column for i, (_, column) in enumerate(cells.keys) if cells.large(i))
    alone = CELLS / max(1, tested.total())
    return [
        (alone + left / tested[column] * (column in certain)) if cells.large(i) else 0.0
        for i, (_, column) in enumerate(cells.keys)
    ]


def residual(plain: Sequence[Sequence[Any]], cells: Sequence[Sequence[Any]], left: Sequence[float]) -> Bar:
    """What cells leave of plain steps, as a bar that is not tested; no interval where its rounds are not those of the
    cells. `plain`: seconds by side, process and round; `cells`: the same, rounds × cells; `left`: the mean by side."""
    pairs = [list(zip(*side, strict=True)) for side in zip(plain, cells, strict=True)]
    if any(len(steps) != len(x) for side in pairs for steps, x in side):
        return Bar(RESIDUAL, left[0], left[1], None, None, False)
    a, b = ([steps - x.sum(axis=1) for steps, x in side] for side in pairs)
    low, high = ends(estimate([x - y for x, y in zip(a, b, strict=True)]))
    return Bar(RESIDUAL, left[0], left[1], low, high, False)


def name(key: Key, by_name: Mapping[str, Row], what: str) -> str:
    """Of the bar that a cell belongs to."""
    rows = [by_name[name] for name in key[0] if name in by_name]
    if what == "cause":
        return key[1]
    names = [row.layer or row.name for row in rows] if what == "layer" else [row.phase for row in rows]
    return " + ".join(dict.fromkeys(names or [OUTSIDE]))
