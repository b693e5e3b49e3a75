"""The material of sentences: comparisons and times of one kind of contest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from micro.planning.contest import parse
from reports import units

if TYPE_CHECKING:
    from reports import record
    from reports.record import Comparison, Run


class Pair(NamedTuple):
    """A comparison that has a ratio, its contest, and the cases of its two results."""

    contest: record.Contest
    comparison: Comparison
    baseline: Any
    contender: Any


def pairs(run: Run, kind: str) -> Iterator[Pair]:
    """Yield the compared pairs of the contests whose name begins with `kind`."""
    for contest in run.contests:
        for comparison in contest.comparisons if contest.contest.startswith(kind) else ():
            if comparison.ratio is not None:
                yield Pair(contest, comparison, parse(comparison.baseline), parse(comparison.contender))


def timed(run: Run, kind: str) -> Iterator[tuple[record.Contest, Any, record.Result]]:
    """Yield contest, case and result of what has a time, in the contests whose name begins with `kind`."""
    for contest in run.contests:
        for result in contest.measured if contest.contest.startswith(kind) else ():
            if result.seconds:
                yield contest, parse(result.name), result


def grouped(run: Run, kind: str) -> Iterator[list[Pair]]:
    """Yield the pairs of each contest."""
    for _, group in itertools.groupby(pairs(run, kind), key=lambda pair: pair.contest.contest):
        yield list(group)


def interval(comparison: Comparison) -> str:
    """Return a ratio with its interval: `1.013 [1.009, 1.017]`."""
    return units.ratio(comparison.ratio, comparison.low, comparison.high)


def faster(comparison: Comparison) -> str:
    """Return how many times as fast the contender is: the ratio of time, turned over."""
    ends = [1 / x if x else None for x in (comparison.high, comparison.low)]
    assert comparison.ratio is not None
    return units.ratio(1 / comparison.ratio, *ends)


def verdict(comparison: Comparison) -> str:
    """Return the verdict in a word; with its level if the interval beside it excludes 1 all the same."""
    from reports import stats, table

    return f"unresolved at {100 * stats.JUDGED:.0f} %" if table.but_shown(comparison) else comparison.verdict


def undisturbed(result: record.Result) -> int:
    """Return the number of rounds of a case that were not rejected."""
    return len(result.samples) - len(result.rejected)


def chosen(count: int) -> str:
    """Return the remark on an extreme of several cases: it was chosen from that many."""
    return f", chosen from {count} in the same rounds" if count > 1 else ""
