"""Sums of cases of one contest, round by round: what was measured apart, as if one launch did it all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports import flat, stats, units
from reports.record import Contest, Result

if TYPE_CHECKING:
    from kernels.problem import Array


def accepted(result: Result) -> Array:
    """Seconds of the rounds that were not rejected."""
    import numpy as np

    return np.array([result.samples[i] for i in flat.accepted(result)])


def ratio(contest: Contest, contender: Sequence[Result], baseline: Sequence[Result]) -> str | None:
    """`0.290 [0.281, 0.300]`; None where `judged` says nothing."""
    shown = judged(contest, contender, baseline)
    return None if shown is None else units.ratio(shown.center, shown.low, shown.high)


def judged(contest: Contest, contender: Sequence[Result], baseline: Sequence[Result]) -> stats.Interval | None:
    """As the contest's own ratios are; None where a case of either has no time, or there are too few rounds for an
    interval."""
    if not all(result.seconds and result.samples for result in (*contender, *baseline)):
        return None
    import numpy as np

    kept = flat.accepted(baseline[0])
    above, below = (np.sum([result.samples for result in some], axis=0)[kept] for some in (contender, baseline))
    return stats.judge(np.log(above / below), contest.comparisons[0].margin).shown
