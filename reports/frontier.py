"""Time against memory: of kernels of one problem those that nothing beats which holds as little."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.record import Contest, Result

FRONTIER, STEPS = "pareto", "steps"  # the first words of contests: of all of them, and of those that are left, again


def timed(contest: Contest) -> list[tuple[float, Result]]:
    """Seconds of each case that has a time, the fastest first."""
    cases = [(x.seconds.median, x) for x in contest.results if x.role == "measured" and x.seconds]
    return sorted(cases, key=lambda pair: pair[0])


def frontier(contest: Contest) -> list[Result]:
    """By bytes beside the operands, each faster, by the margin and more, than all that hold no more."""
    margin = max((x.margin for x in contest.comparisons), default=0.0)
    steps: list[Result] = []
    least = float("inf")
    for seconds, one in sorted(timed(contest), key=lambda pair: pair[1].workspace):
        if seconds < least * (1 - margin):
            steps.append(one)
            least = seconds
    return steps
