"""Answers of micro/gemm.py: transposed operands, and transposing first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from micro.findings.claims import Claim
from micro.findings.crossing import Crossing
from micro.findings.ratios import expected
from micro.findings.select import Pair, chosen, interval, pairs, undisturbed, verdict
from micro.planning.contest import Case, parse
from reports import units

if TYPE_CHECKING:
    from kernels.ops.gemm.problem import Gemm
    from reports.record import Run

LEAD = {"openblas": "OpenBLAS on this machine", "cublas": "cuBLAS on this GPU"}
CLAIM = Claim(3, "arXiv 1608.07249")
PUBLISHED, PUBLISHED_K = (1024, 2048), 26752  # M and N; K, of which a CPU measures an eighth by default
LONGER = "--budget 120s"
CROSSOVER = Crossing(
    "crossover/",
    "transposing first wins",
    "M =",
    lambda pair: int(pair.baseline.problem.m),
    lambda pair: (pair.baseline.variant,),
)


def transpose_answer(run: Run) -> list[str]:
    """Return sentences on the published shape, libraries, largest effect, and transposing first."""
    seed = list(pairs(run, "strategy/"))
    sentences = [*_published(run), *_by_library(run)]
    sentences += _largest([*seed, *pairs(run, "nn-nt/")], run)
    return [*sentences, *_first_or_not(seed), *expected(run)]


def _published(run: Run) -> Iterator[str]:
    """Yield a sentence on NT against NN at the published shape, or at the shape named instead."""
    for contest in run.contests:
        for comparison in contest.comparisons if contest.contest.startswith("strategy/") else ():
            first, second = (parse(name) for name in (comparison.baseline, comparison.contender))
            before, p = (cast("Gemm", case.problem) for case in (first, second))
            if (before.trans, p.trans) != ("nn", "nt") or second.variant not in LEAD:
                continue
            published = "the published shape" if p.k == PUBLISHED_K else "the published M and N"
            shape = published if (p.m, p.n) == PUBLISHED else "the requested shape"
            product = f"{shape} ({p.m}×{p.k} times {p.n}×{p.k} transposed)"
            where = f"in {LEAD[second.variant]}"
            if comparison.ratio is not None:
                takes = f"the product takes {interval(comparison)} times as long as untransposed"
                claim = CLAIM.beside(comparison) if (p.m, p.n) == PUBLISHED else CLAIM
                yield f"Of {product} {takes}, {where} ({verdict(comparison)}); {claim}."
            elif timed := [x for x in contest.results if x.name == comparison.contender and x.seconds]:
                few = f"only {undisturbed(timed[0])} undisturbed rounds, rerun with {LONGER}"
                yield f"At {product} the cost of transposing {where} is not certain: {few}. Undecided: {CLAIM}."


def _by_library(run: Run) -> list[str]:
    """Report the smallest and the largest NT/NN ratio of each library, over all M."""
    libraries: dict[str, list[Pair]] = {}
    for pair in pairs(run, "nn-nt/"):
        if _read_transposed(pair):
            libraries.setdefault(pair.contender.variant, []).append(pair)
    sizes = {pair.contender.problem.m for some in libraries.values() for pair in some}
    if sum(map(len, libraries.values())) < 2:
        return []
    over = " to ".join(map(str, dict.fromkeys((min(sizes), max(sizes)))))
    return [f"By library, NT/NN at M = {over}: {'; '.join(_over_sizes(*library) for library in libraries.items())}."]


def _over_sizes(library: str, sizes: list[Pair]) -> str:
    """Format a library's range: `openblas-scipy 0.32 to 0.80, certain in 2 of 3`."""
    ratios = [x.comparison.ratio or 1.0 for x in sizes]
    ends = dict.fromkeys(f"{ratio:.2f}" for ratio in (min(ratios), max(ratios)))
    certain = sum(x.comparison.verdict in ("slower", "faster") for x in sizes)
    return f"{library} {' to '.join(ends)}, certain in {certain} of {len(sizes)}"


def _read_transposed(pair: Pair) -> bool:
    """Return whether the pair compares NT with NN in one library."""
    same = pair.baseline.variant == pair.contender.variant
    return same and (pair.baseline.problem.trans, pair.contender.problem.trans) == ("nn", "nt")


def _largest(candidates: list[Pair], run: Run) -> list[str]:
    """Format the largest significant NT/NN effect, and the fastest library for the slower product.

    A much faster library shows that the effect is a defect of a single library."""
    read = [p for p in candidates if _read_transposed(p)]
    if not read:
        return []
    certain = [p for p in read if p.comparison.verdict in ("slower", "faster")]
    if not certain:
        ends = sorted(p.comparison.ratio or 1.0 for p in read)
        return [
            f"No certain difference between a transposed B (NT) and an untransposed B (NN) was measured: "
            f"{ends[0]:.2f} to {ends[-1]:.2f} times, {len(read)} ratios."
        ]
    most = max(certain, key=lambda p: abs(math.log(p.comparison.ratio or 1.0)))
    slower = most.comparison.verdict == "slower"
    case = most.contender if slower else most.baseline
    seconds = {x.name: x.seconds.median for x in most.contest.results if x.seconds}
    took = units.seconds(seconds.get(case.name))
    return [
        f"The largest certain difference within a library at one M: {case.problem.trans.upper()} in "
        f"{case.variant} at M = {case.problem.m} takes longer than {'NN' if slower else 'NT'}, NT/NN is "
        f"{interval(most.comparison)}{chosen(len(read))}; certain in {len(certain)} of {len(read)}."
        + _elsewhere(run, case, took)
    ]


def _elsewhere(run: Run, case: Case, took: str) -> str:
    """Format the fastest variant of the case's problem; empty if it is the case's."""
    same = [(x.seconds.median, x.variant) for x in run.measured if x.seconds and parse(x.name).problem == case.problem]
    least, variant = min(same, default=(0.0, case.variant))
    if variant == case.variant:
        return ""
    return f" The product takes {took} in {case.variant}, and {units.seconds(least)} in {variant}."


def _first_or_not(seed: list[Pair]) -> list[str]:
    """Report whether transposing first beats reading B transposed."""
    comparisons = [c for _, c, a, b in seed if a.variant in LEAD and a.problem.trans == "nt" and "then" in b.variant]
    if not comparisons:
        return []
    best = min(comparisons, key=lambda c: c.ratio or math.inf)
    word = {"faster": "pays", "slower": "does not pay", "same": "changes nothing"}
    shown = interval(best)
    how = f"{shown} times the direct product{chosen(len(comparisons))}"
    return [f"Transposing B first {word.get(best.verdict, 'is unresolved')}: {how}."]
