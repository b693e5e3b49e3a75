"""Answers about the forms of an update step: ratios, sums of parts, the crossover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micro.answers.update_parts import CLOSED, cleared, sums
from micro.findings.crossing import between, bracket
from micro.findings.ratios import ratios
from micro.findings.select import interval, pairs
from micro.planning.benchmark import Request
from micro.planning.contest import Contest
from reports.record import Comparison, Run

CLEARS = ("openblas", "openblas-scipy")  # libraries whose beta = 0 clears the result, then adds to it


def fused_answer(run: Run) -> list[str]:
    """Report the sums of the parts of each layer and library, then all ratios."""
    sentences, rows, closed = [], 0, 0
    for contest, comparison, first, _ in pairs(run, "fused/"):
        library, layer = _library(first), first.problem
        totals = sums(contest)
        rows, closed = rows + len(totals), closed + sum(x.closed for x in totals)
        clearing = cleared(contest) if library in CLEARS else None
        head = f"{layer.m}×{layer.n}, batch {layer.k}, {library}: separate takes {interval(comparison)} times the fused"
        parts = [f"{head} product", *map(str, totals), *([str(clearing)] if clearing else [])]
        sentences.append(f"{'; '.join(parts)}.")
    if rows:
        sentences.append(
            f"{rows - closed} of {rows} rows unexplained: their parts miss them by more than {CLOSED:.0%}."
        )
    return [*sentences, *ratios(run)]


def _library(case: Any) -> str:
    return str(case.variant.partition(":")[2])


def crossings(run: Run) -> dict[tuple[str, int, int], dict[int, Comparison]]:
    """Return pass over gradient by library and layer, at each batch."""
    by_layer: dict[tuple[str, int, int], dict[int, Comparison]] = {}
    for _, comparison, first, second in pairs(run, "batch/"):
        if second.problem.part == "update":
            layer = first.problem
            by_layer.setdefault((_library(first), layer.m, layer.n), {})[layer.k] = comparison
    return by_layer


def refine_batch(asked: Request, run: Run, at: Callable[[Request, int, int, int, str], Contest]) -> list[Contest]:
    """Build contests at the middle of every bracket that is still wide."""
    middles = {key: bracket(by_batch).middle for key, by_batch in crossings(run).items()}
    return [at(asked, m, n, middle, library) for (library, m, n), middle in middles.items() if middle]


def batch_answer(run: Run) -> list[str]:
    """Report where the pass costs as much as the gradient, then all ratios."""
    sentences = [
        f"{m}×{n}, {library}: the pass over W costs as much as its gradient {between(bracket(by_k), by_k, 'batch')}, "
        f"by {len(by_k)} verdicts."
        for (library, m, n), by_k in crossings(run).items()
    ]
    return [*sentences, *ratios(run)]
