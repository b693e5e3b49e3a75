"""Significance tests of a gap between two steps, by cause, layer, phase and cell.

The tests are one family. Causes, layers, phases and cells each have a share of the error, divided equally among the
tests of each (Bonferroni); a significant cause passes its share on to its cells (inheritance procedure: Goeman and
Finos, Stat. Appl. Genet. Mol. Biol. 11(1), 2012). Each cell is also tested by itself, so that a large difference is not
lost in the noise of the cause's other rows. Bars that are too small to report are not tested.
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

# Familywise error: probability that two equal steps have any significant bar of this kind, or a cell by inheritance.
ERROR = {"cause": 0.02, "layer": 0.01, "phase": 0.01}
CELLS = 0.01  # probability that two equal steps have any cell that is significant by itself
LEAST = 0.01  # share of the larger step; smaller bars appear in the tables only


@dataclass(frozen=True)
class Seconds:
    """Seconds of two steps, A and B, by cell, with their paired differences."""

    keys: Sequence[Key]
    means: Sequence[Sequence[float]]  # seconds by side and cell
    differences: Sequence[Any]  # A less B, rounds × cells, for each pair of processes
    least: float  # seconds below which a cell is not worth reporting

    def large(self, i: int) -> bool:
        """Return whether cell `i` takes long enough on one side to be worth reporting."""
        return max(side[i] for side in self.means) >= self.least


def estimate(differences: Sequence[Any]) -> stats.Estimate:
    """Estimate a difference in seconds from the rounds of each pair of processes.

    The error is estimated between pairs; with a single pair, between its rounds, and holds for these processes only.
    No round is trimmed, so that cells add up to the gap."""
    if min(map(len, differences)) < 2:
        center = sum(float(x.mean()) for x in differences) / len(differences)
        return stats.Estimate(center, ((1.0, math.inf),))
    return stats.generations(differences, trimmed=0.0)


def ends(difference: stats.Estimate) -> tuple[float, float]:
    """Return the ends of a difference's 95 % interval."""
    half = difference.half(1 - stats.SHOWN)
    return difference.center - half, difference.center + half


def time_ends(seconds: stats.Estimate) -> tuple[float, float]:
    """Return the ends of a time's 95 % interval, cut at zero."""
    low, high = ends(seconds)
    return max(0.0, low), high


def differs(difference: stats.Estimate, error: float) -> bool:
    """Return whether a difference is significant: zero is outside its interval of level 1 - `error`."""
    return abs(difference.center) > difference.half(error)


def bars(cells: Seconds, by_name: Mapping[str, Row], what: str) -> list[Bar]:
    """Return the gap by `what`: cause (kind of work), layer or phase, the largest difference first."""
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
    """Return each cell's error level, with the share inherited from a significant cause; 0: not tested."""
    certain = {bar.name for bar in causes if bar.sure}
    left = ERROR["cause"] / max(1, sum(max(bar.a, bar.b) >= cells.least for bar in causes))
    tested = Counter(column for i, (_, column) in enumerate(cells.keys) if cells.large(i))
    alone = CELLS / max(1, tested.total())
    return [
        (alone + left / tested[column] * (column in certain)) if cells.large(i) else 0.0
        for i, (_, column) in enumerate(cells.keys)
    ]


def residual(plain: Sequence[Sequence[Any]], cells: Sequence[Sequence[Any]], left: Sequence[float]) -> Bar:
    """Return the part of plain steps that no cell explains, as a bar that is not tested.

    `plain`: seconds by side, process and round; `cells`: rounds × cells by side and process; `left`: the mean
    residual by side. The interval is None if plain steps and cells have different numbers of rounds."""
    pairs = [list(zip(*side, strict=True)) for side in zip(plain, cells, strict=True)]
    if any(len(steps) != len(x) for side in pairs for steps, x in side):
        return Bar(RESIDUAL, left[0], left[1], None, None, False)
    a, b = ([steps - x.sum(axis=1) for steps, x in side] for side in pairs)
    low, high = ends(estimate([x - y for x, y in zip(a, b, strict=True)]))
    return Bar(RESIDUAL, left[0], left[1], low, high, False)


def name(key: Key, by_name: Mapping[str, Row], what: str) -> str:
    """Return the name of a cell's bar: its cause, or its layers or phases joined by ` + `."""
    rows = [by_name[name] for name in key[0] if name in by_name]
    if what == "cause":
        return key[1]
    names = [row.layer or row.name for row in rows] if what == "layer" else [row.phase for row in rows]
    return " + ".join(dict.fromkeys(names or [OUTSIDE]))
