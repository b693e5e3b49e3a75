"""`--fft`: from which filter size on a transform takes less time than sums, by library and by whether the filter's
spectrum is kept: the smallest size from which on the whole 95 % interval lies below 1, and from which it is certain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from micro.answers import sums
from micro.findings.select import interval, undisturbed
from micro.planning.contest import parse
from reports import record, stats, units
from reports.record import Comparison, Run


@dataclass(frozen=True)
class Size:
    """One filter size of one variant: against the contest's first, and against the fastest that sums."""

    edge: int
    comparison: Comparison
    fastest: str  # of those that sum, by the median
    ratio: stats.Interval | None  # over it; None of too few rounds


@dataclass
class Layer:
    """An image in one pass: by variant its sizes that have an interval, and the rounds of the sizes that have none."""

    variants: dict[str, list[Size]] = field(default_factory=dict)
    without: dict[int, int] = field(default_factory=dict)
    against: str = ""


def crossovers(run: Run) -> Iterator[str]:
    """For each image and pass what is asked, and which sizes answer it; then a sentence a variant."""
    for place, layer in _layers(run).items():
        edges = sorted({size.edge for sizes in layer.variants.values() for size in sizes})
        asked = f"Where FFT begins to win, {place}: the filter from which on its 95 % interval lies below 1"
        yield f"{asked}{f', of {_listed(edges)}' if edges else ''}{_without(layer)}."
        for variant, sizes in layer.variants.items():
            if sizes:
                yield f"{variant}: {'; '.join(_parts(sorted(sizes, key=lambda x: x.edge), layer.against))}."


def _sums(variant: str) -> bool:
    """Whether it adds term by term."""
    with suppress(UsageError):  # one of another version's file
        return "sums" in find(Conv.op, variant).roles
    return False


def _without(layer: Layer) -> str:
    """The sizes of which nothing is said."""
    rounds = sorted(set(layer.without.values()))
    few = " to ".join(map(str, dict.fromkeys((rounds[0], rounds[-1])))) if rounds else ""
    some = _listed(sorted(layer.without))
    return f"; none for {some}, which had {few} undisturbed rounds: a longer --budget" if rounds else ""


def _listed(edges: Sequence[int]) -> str:
    return ", ".join(f"{edge}×{edge}" for edge in edges)


def _layers(run: Run) -> dict[str, Layer]:
    layers: dict[str, Layer] = {}
    for contest in run.contests:
        if not contest.contest.startswith("fft/"):
            continue
        for comparison in contest.comparisons:
            contender, problem = parse(comparison.contender), parse(comparison.contender).problem
            if "fft" in contender.variant:
                _add(layers.setdefault(_place(problem), Layer()), contest, comparison)
    return layers


def _add(layer: Layer, contest: record.Contest, comparison: Comparison) -> None:
    results = {x.name: x for x in contest.results}
    case: Any = parse(comparison.contender)
    contender, edge, layer.against = results[comparison.contender], case.problem.r, parse(comparison.baseline).variant
    sizes = layer.variants.setdefault(case.variant, [])
    if comparison.low is None or comparison.high is None:
        if contender.seconds:
            layer.without[edge] = undisturbed(contender)
        return
    direct = [x for x in contest.results if x.seconds and (x.name == comparison.baseline or _sums(x.variant))]
    fastest = min(direct, key=lambda x: x.seconds.median if x.seconds else 0.0)
    sizes.append(Size(edge, comparison, fastest.variant, sums.judged(contest, [contender], [fastest])))


def _place(problem: Any) -> str:
    """`forward, 64→64 channels, 27×27, batch 16`"""
    return f"{problem.direction}, {problem.c}→{problem.k} channels, {problem.h}×{problem.w}, batch {problem.n}"


def _from(sizes: Sequence[Size], holds: Callable[[Size], bool]) -> Size | None:
    """The smallest from which on it holds."""
    beyond = max((i + 1 for i, size in enumerate(sizes) if not holds(size)), default=0)
    return sizes[beyond] if beyond < len(sizes) else None


def _parts(sizes: Sequence[Size], against: str) -> Iterator[str]:
    """Against the contest's first; against the fastest that sums, where that is another."""
    first = _from(sizes, lambda size: size.comparison.high is not None and size.comparison.high < 1)
    if first is None:
        yield f"nowhere below {against}"
    else:
        certain = _from(sizes, lambda size: size.comparison.verdict == "faster")
        surely = f"certain from {certain.edge}×{certain.edge} on" if certain else "certain nowhere"
        yield f"below {against} from {first.edge}×{first.edge} on ({interval(first.comparison)} there), {surely}"
    if all(size.fastest == against for size in sizes):
        return
    best = _from(sizes, lambda size: size.ratio is not None and size.ratio.high < 1)
    if best is None or best.ratio is None:
        yield "nowhere below the fastest that sums"
    else:
        there = units.ratio(best.ratio.center, best.ratio.low, best.ratio.high)
        yield f"below {best.fastest}, the fastest that sums, from {best.edge}×{best.edge} on ({there} there)"
