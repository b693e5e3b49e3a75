"""Cost of a default: the contests that search the fastest, and those that measure it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.record import Contest, Result

SEARCH, CHANGING, REGRET = "find", "changing", "regret"  # the first words of their names


def timed(contest: Contest) -> list[tuple[float, Result]]:
    """Return the seconds of each case that has a time, the fastest first."""
    cases = [(x.seconds.median, x) for x in contest.measured if x.seconds]
    return sorted(cases, key=lambda pair: pair[0])


def fastest(contest: Contest) -> tuple[Result, Result] | None:
    """Return the default, and what a search would choose in its stead by these rounds' times.

    A search would choose the default itself where nothing was faster. None if the default has no time, or stands
    alone."""
    cases = [result for _, result in timed(contest)]
    defaults = [x for x in cases if x.name == contest.comparisons[0].baseline] if contest.comparisons else []
    return (defaults[0], cases[0]) if defaults and len(cases) > 1 else None


def common(contest: str) -> str:
    """Return the common part of the names of a contest and of the one that measures its fastest again."""
    return contest.partition("/")[2]
