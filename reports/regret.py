"""Cost (regret) of a default: contests that search for the fastest case or measure it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.record import Contest, Result

SEARCH, CHANGING, REGRET = "find", "changing", "regret"  # first words of such contests' names


def timed(contest: Contest) -> list[tuple[float, Result]]:
    """Return the timed cases with their median seconds, the fastest first."""
    cases = [(x.seconds.median, x) for x in contest.measured if x.seconds]
    return sorted(cases, key=lambda pair: pair[0])


def fastest(contest: Contest) -> tuple[Result, Result] | None:
    """Return the default's result and the fastest result in these rounds, which may be the default itself.

    None if the default has no time, or is the only timed case."""
    cases = [result for _, result in timed(contest)]
    defaults = [x for x in cases if x.name == contest.comparisons[0].baseline] if contest.comparisons else []
    return (defaults[0], cases[0]) if defaults and len(cases) > 1 else None


def common(contest: str) -> str:
    """Return a contest's name after its first word, which a search and its remeasuring contest share."""
    return contest.partition("/")[2]
