"""Answers about workspace: for each layer and pass, the fastest variant by available bytes."""

from __future__ import annotations

from collections.abc import Iterator

from micro.answers.conv import where
from micro.findings.select import interval
from micro.planning.contest import parse
from reports import units
from reports.record import Contest, Result, Run
from reports.regret import timed

FRONTIER, STEPS = "pareto", "steps"  # first words of contests: all cases, and the frontier again


def answer(run: Run) -> list[str]:
    """Report the frontier of each layer and pass."""
    again = {x.contest.partition("/")[2]: x for x in run.contests if x.contest.startswith(f"{STEPS}/")}
    every = [contest for contest in run.contests if contest.contest.startswith(f"{FRONTIER}/")]
    return [sentence for x in every for sentence in _steps(x, again.get(x.contest.partition("/")[2]))]


def frontier(contest: Contest) -> list[Result]:
    """Return the cases that nothing beats with as few bytes beside the operands, by these bytes.

    Each is faster than all that hold no more, by the margin of the comparisons at least."""
    margin = max((x.margin for x in contest.comparisons), default=0.0)
    steps: list[Result] = []
    least = float("inf")
    for seconds, case in sorted(timed(contest), key=lambda pair: pair[1].workspace):
        if seconds < least * (1 - margin):
            steps.append(case)
            least = seconds
    return steps


def _steps(contest: Contest, again: Contest | None) -> Iterator[str]:
    """Report the fastest variant from each number of bytes on, with the ratios of fresh rounds."""
    left, count = frontier(contest), len(timed(contest))
    if not left:
        return
    first, *others = left
    layer = where(parse(first.name).problem)
    if not others:
        yield f"{layer}: {_description(first)}, is the fastest of {count}: more bytes bring nothing."
        return
    ratios = {x.contender: x for x in again.comparisons} if again else {}
    words = [_description(first)]
    for result in others:
        measured = ratios.get(result.name)
        if measured is None or measured.ratio is None:
            words.append(f"{_description(result)}, not measured again")
        else:
            doubt = "" if measured.verdict == "faster" else ", which is not certain"
            words.append(f"{_description(result)}, {interval(measured)} times that{doubt}")
    yield f"{layer}: {'; '.join(words)}. Of {count} all others hold as much as one of these and are no faster."


def _description(result: Result) -> str:
    took = result.seconds.median if result.seconds else None
    return f"with {units.binary(result.workspace)} {result.variant}, {units.seconds(took)}"
