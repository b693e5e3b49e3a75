"""Answers about the forms of an update step: ratios, sums of parts, the crossover."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from micro.answers.gemm import Bracket
from micro.answers.optimizer import GAIN
from micro.answers.update_parts import CLOSED, cleared, sums
from micro.findings.phrase import Phrase
from micro.findings.phrase import sentences as of_phrases
from micro.findings.select import Band, Pair, interval, pairs
from micro.planning.benchmark import Request
from micro.planning.contest import Contest, parse
from reports import record
from reports.record import Comparison, Run

NEAR = 1.25  # bounds of a crossover this near to each other are near enough
CLEARS = ("openblas", "openblas-scipy")  # libraries whose beta = 0 clears the result, then adds to it
BANDS = {
    16: Band("Separate over fused, OpenBLAS, 2048×2048 at batch 16", 1.25),
    64: Band("Separate over fused, OpenBLAS, 2048×2048 at batch 64", 1.05),
    512: Band("Separate over fused, OpenBLAS, 2048×2048 at batch 512", 0.95, 1.25, firm=False),
}


def _at(layer: Any) -> str:
    return f"{layer.m}×{layer.n}, batch {layer.k}"


def fused_answer(run: Run) -> list[str]:
    """Report the ratio of each layer and library, the sums of its parts, and other rules."""
    sentences, rows, closed = [], 0, 0
    for contest, comparison, first, _ in pairs(run, "fused/"):
        library = _library(first)
        totals = sums(contest)
        rows, closed = rows + len(totals), closed + sum(x.closed for x in totals)
        head = f"{_at(first.problem)}, {library}: separate takes {interval(comparison)} times the fused product"
        clearing = cleared(contest) if library in CLEARS else None
        texts = [str(x) for x in (*totals, *([clearing] if clearing else []))]
        sentences.append("; ".join([head, *texts]) + ".")
    if rows:
        sentences.append(
            f"{rows - closed} of {rows} rows unexplained: their parts miss them by more than {CLOSED:.0%}."
        )
    return [*sentences, *of_phrases(run, OTHERS), *_bands(run)]


def _bands(run: Run) -> Iterator[str]:
    for _, comparison, first, _ in pairs(run, "fused/"):
        layer = first.problem
        if first.variant == "fused:openblas" and (layer.m, layer.n) == (2048, 2048) and layer.k in BANDS:
            yield BANDS[layer.k].of(comparison)


def _library(case: Any) -> str:
    return str(case.variant.partition(":")[2])


def _form(case: Any) -> str:
    return str(case.variant.partition(":")[0])


def _rule(pair: Pair) -> str:
    """Format a comparison of rules: `adam separate/fused`, or `adam/sgd separate`."""
    rule = pair.contender.problem.rule
    return f"{rule} separate/fused" if pair.baseline.variant.startswith("fused") else f"{rule}/sgd separate"


TIED = {
    "two-buffers": "two gradients and their sum take",
    "separate": "one gradient that the second product adds to takes",
}
AGAINST = {"two-buffers": "two gradients and their sum", "separate": "one gradient that the second product adds to"}
_WORDS = {
    "at": _at,
    "library": _library,
    "rule": _rule,
    "tied": lambda case: TIED[_form(case)],
    "against": lambda case: AGAINST.get(_form(case), "both products onto W"),
}
OTHERS = (
    Phrase("ways/", "{p:at}, against {a.variant}: {items}.", "{b.variant} {ratio}", "{p:at} {a.variant}", words=_WORDS),
    Phrase(
        "rules/",
        "{p:at}, {a:library}: {items}; nesterov, clip and norm need the gradient by itself.",
        "{pair:rule} {ratio}",
        "{p:at} {a:library}",
        words=_WORDS,
    ),
    Phrase(
        "tied/", "Two layers on one W, {p:at}, {a:library}: {b:tied} {ratio} times {a:against}.", by="", words=_WORDS
    ),
    GAIN,
)


def _sizes(run: Run) -> dict[tuple[str, int, int], dict[int, Comparison]]:
    """Return pass over gradient by library and layer, at each batch."""
    by_layer: dict[tuple[str, int, int], dict[int, Comparison]] = {}
    for _, comparison, first, second in pairs(run, "batch/"):
        if second.problem.part == "update":
            layer = first.problem
            key = (first.variant.partition(":")[2], layer.m, layer.n)
            by_layer.setdefault(key, {})[layer.k] = comparison
    return by_layer


def brackets(run: Run) -> dict[tuple[str, int, int], Bracket]:
    """Return the last batch where the pass costs no less than the gradient, and the next where it does."""
    by_layer = {}
    for key, at in _sizes(run).items():
        dear = [k for k, x in at.items() if x.verdict in ("slower", "same")]
        low = max(dear, default=None)
        cheap = [k for k, x in at.items() if x.verdict == "faster" and (low is None or k > low)]
        by_layer[key] = Bracket(low, min(cheap, default=None))
    return by_layer


def refine_batch(asked: Request, run: Run, at: Callable[[Request, int, int, int, str], Contest]) -> list[Contest]:
    """Build contests at the middle of every bracket that is still wide."""
    contests = []
    for (library, m, n), bracket in brackets(run).items():
        if bracket.low and bracket.high and bracket.high / bracket.low > NEAR:
            middle = round(math.sqrt(bracket.low * bracket.high))
            if bracket.low < middle < bracket.high:
                contests.append(at(asked, m, n, middle, library))
    return contests


def batch_answer(run: Run) -> list[str]:
    """Report where the pass costs as much as the gradient, and what fusing gains."""
    sentences = []
    for key, bracket in brackets(run).items():
        library, m, n = key
        sizes = _sizes(run)[key]
        where = (
            f"between batch {bracket.low} and {bracket.high}"
            if bracket.low and bracket.high
            else "at no batch, not even at 1"
            if bracket.high == 1
            else f"below batch {bracket.high}, the smallest tried"
            if bracket.high
            else f"above batch {max(sizes)}, the largest tried"
        )
        ratios = ", ".join(f"{interval(sizes[k])} at {k}" for k in sorted(sizes))
        sentences.append(
            f"{m}×{n}, {library}: the pass over W costs as much as its gradient {where}, "
            f"by {len(sizes)} verdicts{_rates(run, key)}; pass over gradient: {ratios}."
        )
        fused = [
            f"{interval(c)} at {a.problem.k}"
            for _, c, a, b in pairs(run, "batch/")
            if a.variant == f"fused:{library}" and (a.problem.m, a.problem.n) == (m, n)
        ]
        if fused:
            sentences.append(f"{m}×{n}, {library}: separate over fused {', '.join(fused)}.")
    return sentences


def _rates(run: Run, key: tuple[str, int, int]) -> str:
    """Predict the crossover batch as 6 F / BW, from the rates of the largest batch.

    The gradient takes 2 B P / F seconds, the pass 12 P / BW."""
    library, m, n = key
    best: tuple[int, float, float] | None = None
    for contest in run.contests:
        timed = {x.name: x for x in contest.results if x.seconds and contest.contest.startswith("batch/")}
        rows: dict[Any, record.Result] = {parse(name).problem: x for name, x in timed.items() if x.role == "measured"}
        gradients = [x for p, x in rows.items() if x.variant == f"gradient:{library}" and (p.m, p.n) == (m, n)]
        passes = [x for p, x in rows.items() if p.part == "update" and (p.m, p.n) == (m, n)]
        if gradients and passes and gradients[0].flops_per_second and passes[0].bytes_per_second:
            batch = gradients[0].problem["k"]
            if best is None or batch > best[0]:
                best = (batch, gradients[0].flops_per_second, passes[0].bytes_per_second)
    if best is None:
        return ""
    batch = f"{6 * best[1] / best[2]:.0f} by 6·F/BW at the rates of batch {best[0]}"
    return f" ({batch}, which leave out that the gradient is written)"
