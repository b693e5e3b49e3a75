"""Sums of cases of one contest, round by round, as if one launch did all their work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports import flat, stats, units
from reports.record import Contest, Result

if TYPE_CHECKING:
    from kernels.problem import Array


def accepted(result: Result) -> Array:
    """Return seconds of the rounds that were not rejected."""
    import numpy as np

    return np.array([result.samples[i] for i in flat.accepted(result)])


def ratio(contest: Contest, contender: Sequence[Result], baseline: Sequence[Result]) -> str | None:
    """Format the ratio of two sums: `0.290 [0.281, 0.300]`; None where `judged` returns None."""
    shown = judged(contest, contender, baseline)
    return None if shown is None else units.ratio(shown.center, shown.low, shown.high)


def judged(contest: Contest, contender: Sequence[Result], baseline: Sequence[Result]) -> stats.Interval | None:
    """Return the interval of the ratio of two sums, as for the contest's comparisons.

    None where a case has no time, or where the rounds are too few for an interval."""
    if not all(result.seconds and result.samples for result in (*contender, *baseline)):
        return None
    import numpy as np

    kept = flat.accepted(baseline[0])
    above, below = (np.sum([result.samples for result in some], axis=0)[kept] for some in (contender, baseline))
    return stats.judge(np.log(above / below), contest.comparisons[0].margin).shown
