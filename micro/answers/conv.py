"""Answers of micro/conv.py: the fastest variant of each layer and pass, and where FFT begins to win."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from micro.answers.conv_fft import crossovers
from micro.findings.select import interval
from micro.planning.contest import parse
from reports import record, units
from reports.record import Run

FORMS = ("passes", "layout", "grouped", "widths")  # contests of one kernel


def answer(run: Run) -> list[str]:
    """List the FFT crossovers, then for each contest its fastest variant or the cost of a kernel's forms."""
    sentences = [sentence for contest in run.contests for sentence in (*_fastest(contest), *_forms(contest))]
    return [*crossovers(run), *sentences]


def place(problem: Any) -> str:
    """Format a layer: `3×3, 256→384 channels, 13×13, batch 16, stride 1`."""
    stride = f", stride {problem.stride}" if problem.stride > 1 else ""
    return (
        f"{problem.r}×{problem.s}, {problem.c}→{problem.k} channels, {problem.h}×{problem.w}, batch {problem.n}{stride}"
    )


def where(problem: Any) -> str:
    """Format a pass of a layer: `dgrad, 3×3, 256→384 channels, 13×13, batch 16`."""
    return f"{problem.direction}, {place(problem)}"


def _fastest(contest: record.Contest) -> Iterator[str]:
    """Report the least ratio that is certainly below 1, or that there is none."""
    compared = [x for x in contest.comparisons if x.ratio is not None]
    if not compared or contest.differs != "variant":
        return
    baseline = parse(compared[0].baseline)
    layer = where(baseline.problem)
    faster = [x for x in compared if x.verdict == "faster"]
    if not faster:
        yield f"{layer}: nothing is certainly faster than {baseline.variant}."
        return
    best = min(faster, key=lambda x: x.ratio or 1.0)
    yield f"{layer}: {parse(best.contender).variant} takes {interval(best)} times what {baseline.variant} takes."


def _forms(contest: record.Contest) -> Iterator[str]:
    """Compare one kernel's passes, layouts, groups or channels with the first of them."""
    compared = [x for x in contest.comparisons if x.ratio is not None]
    if not compared or contest.contest.partition("/")[0] not in FORMS:
        return
    first = parse(compared[0].baseline)
    parts = []
    for comparison in compared:
        problem: Any = parse(comparison.contender).problem
        share = problem.flops / first.problem.flops
        work = "" if share == 1 else f" for {share:.3g} of the work"
        parts.append(f"{_form(contest.differs, problem)} {interval(comparison)}{work}")
    layer = place(first.problem) if contest.differs == "direction" else where(first.problem)
    yield f"{first.variant}, {layer}: {', '.join(parts)} times {_form(contest.differs, first.problem)}."


def _form(differs: str, problem: Any) -> str:
    """Format what differs: `dgrad`, `nhwc`, `4 groups`, `49 channels`."""
    if differs in ("direction", "layout"):
        return str(problem.direction if differs == "direction" else problem.layout)
    return units.counted(problem.groups, "group") if "groups" in differs else units.counted(problem.c, "channel")
