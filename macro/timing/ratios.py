"""Ratios of step times, round by round; of frameworks never in memory together, through a third."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from reports import stats
from reports.record import Result

Times: TypeAlias = Mapping[tuple[int, int], float]  # seconds of a step by (generation, round)


@dataclass(frozen=True)
class Compared:
    """The judged ratio of two entries' times."""

    judged: stats.Judgment
    generations: int  # that count
    through: int | None = None  # index of the third entry, if compared through it


def compare(times: Sequence[Times], contender: int, baseline: int, margin: float) -> Compared:
    """Compare two entries' times, through a third entry if it shares more generations with each of them."""
    direct = _logs(times[contender], times[baseline])
    between = [i for i in range(len(times)) if i not in (contender, baseline)]
    pairs = {i: (_logs(times[contender], times[i]), _logs(times[baseline], times[i])) for i in between}
    met = {i: min(map(len, sides)) for i, sides in pairs.items()}  # generations
    best = max(pairs, key=lambda i: (met[i], min(sum(map(len, side)) for side in pairs[i])), default=None)
    if best is None or len(direct) >= met[best]:
        return Compared(stats.nested(direct, margin), len(direct))
    return Compared(stats.through(*pairs[best], margin), met[best], best)


def over(result: Result, least: Result, timed: Sequence[Result]) -> tuple[stats.Interval | None, str]:
    """Return the ratio of two results' times (None: too few rounds), and ` through NAME` if indirect."""
    order = [x for x in timed if x.contest == result.contest]
    compared = compare([_by_round(x) for x in order], order.index(result), order.index(least), 0.0)
    return compared.judged.shown, "" if compared.through is None else f" through {order[compared.through].variant}"


def _by_round(result: Result) -> Times:
    return dict(zip(zip(result.processes, result.rounds, strict=True), result.samples, strict=True))


def _logs(contender: Times, baseline: Times) -> list[Any]:
    """Return the log ratios of common rounds, an array for each generation that has enough rounds."""
    import numpy as np

    rows: dict[int, list[float]] = {}
    for generation, number in sorted(contender.keys() & baseline.keys()):
        ratio = contender[generation, number] / baseline[generation, number]
        rows.setdefault(generation, []).append(math.log(ratio))
    return [np.array(row) for row in rows.values() if len(row) >= stats.FEWEST]
