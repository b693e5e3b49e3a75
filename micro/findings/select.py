"""Selection of comparisons and times of one kind of contest, for sentences."""

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
    """A comparison with a ratio, its contest, and the two cases that it compares."""

    contest: record.Contest
    comparison: Comparison
    baseline: Any
    contender: Any


def pairs(run: Run, kind: str) -> Iterator[Pair]:
    """Yield each comparison with a ratio, in the contests whose name begins with `kind`."""
    for contest in run.contests:
        for comparison in contest.comparisons if contest.contest.startswith(kind) else ():
            if comparison.ratio is not None:
                yield Pair(contest, comparison, parse(comparison.baseline), parse(comparison.contender))


def timed(run: Run, kind: str) -> Iterator[tuple[record.Contest, Any, record.Result]]:
    """Yield (contest, case, result) of each timed case in the contests whose name begins with `kind`."""
    for contest in run.contests:
        for result in contest.measured if contest.contest.startswith(kind) else ():
            if result.seconds:
                yield contest, parse(result.name), result


def grouped(run: Run, kind: str) -> Iterator[list[Pair]]:
    """Yield the list of pairs of each contest whose name begins with `kind`."""
    for _, group in itertools.groupby(pairs(run, kind), key=lambda pair: pair.contest.contest):
        yield list(group)


def interval(comparison: Comparison) -> str:
    """Return a ratio with its interval: `1.013 [1.009, 1.017]`."""
    return units.ratio(comparison.ratio, comparison.low, comparison.high)


def faster(comparison: Comparison) -> str:
    """Format how many times as fast the contender is: the inverse of its time ratio, with interval."""
    ends = [1 / x if x else None for x in (comparison.high, comparison.low)]
    assert comparison.ratio is not None
    return units.ratio(1 / comparison.ratio, *ends)


def verdict(comparison: Comparison) -> str:
    """Return the verdict; an unresolved verdict with its level if the interval shown excludes 1."""
    from reports import stats, table

    return f"unresolved at {100 * stats.JUDGED:.0f} %" if table.but_shown(comparison) else comparison.verdict


def undisturbed(result: record.Result) -> int:
    """Return the number of rounds of a case that were not rejected."""
    return len(result.samples) - len(result.rejected)


def chosen(count: int) -> str:
    """Return the remark that an extreme was chosen from `count` cases; empty for a single case."""
    return f", chosen from {count} in the same rounds" if count > 1 else ""
