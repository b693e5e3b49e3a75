"""Answer of `--fft`: from which filter size on a transform takes less time than sums.

Reported by library and by whether the filter's spectrum is kept: the smallest size from which on the entire 95 %
interval lies below 1, and the one from which the verdict is certain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from micro.findings import sums
from micro.findings.ratios import ratios
from micro.findings.select import interval, undisturbed
from micro.planning.contest import parse
from reports import record, stats, units
from reports.record import Comparison, Run


@dataclass(frozen=True)
class Size:
    """One filter size of one variant, compared with the contest's baseline and the fastest direct sum."""

    edge: int
    comparison: Comparison
    fastest: str  # direct sum, by the median
    ratio: stats.Interval | None  # over the fastest direct sum; None for too few rounds


@dataclass
class Layer:
    """An image size in one pass, with its FFT variants."""

    variants: dict[str, list[Size]] = field(default_factory=dict)  # by variant, the sizes that have an interval
    without: dict[int, int] = field(default_factory=dict)  # of sizes without an interval, the undisturbed rounds
    against: str = ""


def answer(run: Run) -> list[str]:
    """Report the crossovers, then all ratios."""
    return [*crossovers(run), *ratios(run)]


def crossovers(run: Run) -> Iterator[str]:
    """Report for each image and pass the question and its sizes, then a sentence per variant."""
    for place, layer in _layers(run).items():
        edges = sorted({size.edge for sizes in layer.variants.values() for size in sizes})
        asked = f"Where FFT begins to win, {place}: the filter from which on its 95 % interval lies below 1"
        yield f"{asked}{f', of {_listed(edges)}' if edges else ''}{_without(layer)}."
        for variant, sizes in layer.variants.items():
            if sizes:
                yield f"{variant}: {'; '.join(_parts(sorted(sizes, key=lambda x: x.edge), layer.against))}."


def _sums(variant: str) -> bool:
    """Report whether a variant adds term by term."""
    with suppress(UsageError):  # variant of another version's file
        return "sums" in find(Conv.op, variant).roles
    return False


def _without(layer: Layer) -> str:
    """List the sizes that have no interval, with their rounds."""
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
    """Format an image and pass: `forward, 64→64 channels, 27×27, batch 16`."""
    return f"{problem.direction}, {problem.c}→{problem.k} channels, {problem.h}×{problem.w}, batch {problem.n}"


def _from(sizes: Sequence[Size], holds: Callable[[Size], bool]) -> Size | None:
    """Return the smallest size from which on `holds` is true for all sizes."""
    beyond = max((i + 1 for i, size in enumerate(sizes) if not holds(size)), default=0)
    return sizes[beyond] if beyond < len(sizes) else None


def _parts(sizes: Sequence[Size], against: str) -> Iterator[str]:
    """Compare with the contest's baseline, then with the fastest direct sum where that is another."""
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
