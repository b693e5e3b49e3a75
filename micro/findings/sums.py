"""Sums of cases of one contest, round by round, as if one launch did all their work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from micro.findings.ratios import words
from reports import flat, stats, units
from reports.record import Contest, Result, Run

if TYPE_CHECKING:
    from kernels.problem import Array


@dataclass(frozen=True)
class SumOf:
    """The ratio of two sums of parts of each contest of a kind."""

    kind: str  # of contests: how their names begin
    what: str  # sum over sum, in words
    parts: str  # pattern of the names of the cases that are added up
    against: str  # … in the sum to compare with

    def __call__(self, run: Run) -> list[str]:
        """Return a sentence for each contest whose cases all have times."""
        sentences = []
        for contest in run.contests:
            if contest.contest.startswith(self.kind):
                measured = [x for x in contest.results if x.role == "measured"]
                above, below = ([x for x in measured if re.search(y, x.name)] for y in (self.parts, self.against))
                if interval := judged(contest, above, below):
                    named = contest.contest.removeprefix(self.kind).replace("variant:", "").split("/")
                    where = " ".join(dict.fromkeys([*named, *words([x.name for x in below])[0].split()]))
                    shown = units.ratio(interval.center, interval.low, interval.high)
                    sentences.append(f"{where}: {self.what} takes {shown} times as long.")
        return sentences


def accepted(result: Result) -> Array:
    """Return seconds of the rounds that were not rejected."""
    import numpy as np

    return np.array([result.samples[i] for i in flat.accepted(result)])


def judged(contest: Contest, contender: Sequence[Result], baseline: Sequence[Result]) -> stats.Interval | None:
    """Return the interval of the ratio of two sums, as for the contest's comparisons.

    None where a case has no time, or where the rounds are too few for an interval."""
    if not contender or not baseline or not all(x.seconds and x.samples for x in (*contender, *baseline)):
        return None
    import numpy as np

    kept = flat.accepted(baseline[0])
    above, below = (np.sum([result.samples for result in some], axis=0)[kept] for some in (contender, baseline))
    return stats.judge(np.log(above / below), contest.comparisons[0].margin).shown
