"""What the finished run of micro/conv.py says: the fastest of each layer and pass, and where FFT begins to win."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from micro.answers.conv_fft import crossovers
from micro.planning.contest import parse
from reports import record, units
from reports.record import Comparison, Run


def answer(run: Run) -> list[str]:
    """The crossovers of FFT, then a sentence a contest: who is fastest, and against what."""
    fastest = [sentence for contest in run.contests for sentence in _fastest(contest)]
    return [*crossovers(run), *fastest]


def _shown(one: Comparison) -> str:
    return units.ratio(one.ratio, one.low, one.high)


def place(problem: Any) -> str:
    """`3×3, 256→384 channels, 13×13, batch 16, stride 1`"""
    stride = f", stride {problem.stride}" if problem.stride > 1 else ""
    return (
        f"{problem.r}×{problem.s}, {problem.c}→{problem.k} channels, {problem.h}×{problem.w}, batch {problem.n}{stride}"
    )


def _fastest(contest: record.Contest) -> Iterator[str]:
    """The least ratio that is certainly below 1, or that none is."""
    compared = [one for one in contest.comparisons if one.ratio is not None]
    if not compared or contest.differs != "variant":
        return
    baseline = parse(compared[0].baseline)
    where = f"{getattr(baseline.problem, 'direction', '')}, {place(baseline.problem)}"
    faster = [one for one in compared if one.verdict == "faster"]
    if not faster:
        yield f"{where}: nothing is certainly faster than {baseline.variant}."
        return
    best = min(faster, key=lambda one: one.ratio or 1.0)
    yield f"{where}: {parse(best.contender).variant} takes {_shown(best)} times what {baseline.variant} takes."
