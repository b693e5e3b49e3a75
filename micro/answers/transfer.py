"""What the finished run of micro/transfer.py says of gradients, layers, processes and new memory."""

from __future__ import annotations

from typing import Any

from kernels.ops.transfer.problem import GRADIENTS
from micro.answers.band import Pair, grouped, interval
from micro.answers.transfer_curve import rate, timed, way
from micro.planning.contest import parse
from reports import units
from reports.record import Run

LINK = 8 * 2**30  # bytes a second: the text's 8 GB/s, as its 0.0256 s takes them
CLAIMED = 0.0256  # seconds, the text's transfer


def gradients(run: Run) -> list[str]:
    """A sentence a network, the fastest way first; then what the text's figure is."""
    by_size: dict[int, list[tuple[float, str]]] = {}
    for case, result in timed(run, "gradient/"):
        assert result.seconds is not None
        by_size.setdefault(case.problem.size, []).append((result.seconds.median, way(case)))
    titles = {gradient.nbytes: gradient.title for gradient in GRADIENTS.values()}
    sentences = []
    for size, ways in by_size.items():
        told = ", ".join(f"{name} {units.seconds(took)} ({rate(size / took)})" for took, name in sorted(ways))
        sentences.append(f"{titles.get(size, 'A gradient')}'s gradient, {units.scaled(size, 'B')}: {told}.")
    return [*sentences, published()] if sentences else []


def published() -> str:
    """The literature's transfer of a gradient in 0.0256 s, worked out."""
    own, other = GRADIENTS["fcn-r"].nbytes, 55_000_000 * 4
    repository = 4 * 13_707_264  # bytes of the text's CNTK script's, fcn-r:cntk, without biases
    biased = 4 * 13_714_442
    four = [1e3 * 4 * size / LINK for size in (repository, biased)]
    return (
        f"The text's {CLAIMED} s for FCN-R's gradient (arXiv:1608.07249) is no single one: that is {own / 8e6:.1f} ms "
        f"at 8 GB/s. Four of the gradients of its CNTK script, which trains 13.7 million parameters, one after the "
        f"other over one link of 8 GiB/s, are {four[0]:.2f} to {four[1]:.2f} ms; 55 million numbers, FCN-S's count in "
        f"that text, are {1e3 * other / LINK:.2f} ms."
    )


def layers(run: Run) -> list[str]:
    """A sentence a network and way."""
    sentences = []
    for group in grouped(run, "layers/"):
        problem = group[0].contender.problem
        parts = " and ".join(_form(pair) for pair in group)
        net = GRADIENTS.get(problem.buffers)
        what = f"{net.title}: in {len(problem.lengths)} buffers, one a layer," if net else "in a hundred equal buffers"
        sentences.append(f"{way(group[0].baseline)}, {what} {parts} times what one buffer takes.")
    return sentences


def _form(pair: Pair) -> str:
    each = ", a word awaited for each," if pair.contender.problem.waits == "each" else ""
    return f"{interval(pair.comparison)}{each}"


def beside(run: Run) -> list[str]:
    """A sentence a size: the copy, the products, and both at once; what of the shorter one is hidden."""
    sentences = []
    for contest in run.contests:
        if not contest.contest.startswith("beside/"):
            continue
        took = {parse(x.name).variant: x.seconds.median for x in contest.results if x.seconds}
        copy, products, both = (took.get(name) for name in ("h2d-pinned", "products", "h2d-beside-products"))
        if copy is None or products is None or both is None:
            continue
        hidden = min(1.0, max(0.0, (copy + products - both) / min(copy, products)))
        problem: Any = parse(contest.results[0].name).problem
        size = units.binary(problem.size)
        sentences.append(
            f"A copy of {size} to the device takes {units.seconds(copy)}, products there {units.seconds(products)}, "
            f"both at once {units.seconds(both)}: {units.percent(100 * hidden)} of the shorter one is hidden."
        )
    return sentences


def pageable(run: Run) -> list[str]:
    """A sentence a size and way: memory that is not page-locked against memory that is."""
    medians = {x.name: x.seconds.median for x in run.results if x.seconds}
    sentences = []
    for group in grouped(run, "pageable/"):
        first, took = group[0].baseline, medians[group[0].comparison.baseline]
        size = first.problem.size
        told = ", ".join(
            f"{way(x.contender)} {interval(x.comparison)} ({rate(size / medians[x.comparison.contender])})"
            for x in group
        )
        sentences.append(
            f"{units.binary(size)}, copied and waited for, times what {way(first)} takes ({units.seconds(took)}, "
            f"{rate(size / took)}): {told}."
        )
    return sentences


def processes(run: Run) -> list[str]:
    """A sentence a size: the ways into another process, beside a copy within one or beside each other."""
    medians = {x.name: x.seconds.median for x in run.results if x.seconds}
    sentences = []
    for group in grouped(run, "process/"):
        first = group[0].baseline
        own = [pair for pair in group if pair.comparison.baseline == group[0].comparison.baseline]
        told = ", ".join(
            f"{way(x.contender)} {interval(x.comparison)} ({units.seconds(medians[x.comparison.contender])})"
            for x in own
        )
        took = units.seconds(medians[group[0].comparison.baseline])
        size = units.binary(first.problem.size)
        sentences.append(f"{size} into another process, times what {way(first)} takes ({took}): {told}.")
    return sentences


def first_touch(run: Run) -> list[str]:
    """New memory against touched, huge pages against small."""
    sentences = []
    for group in grouped(run, "memory/"):
        pair = group[0]
        first, second = pair.baseline.problem, pair.contender.problem
        size = units.binary(second.size)
        if first.page != second.page:
            sentences.append(
                f"A copy of {size} in huge pages takes {interval(pair.comparison)} times one in small ones."
            )
        else:
            page = units.binary(second.page)
            sentences.append(
                f"A copy of {size} into new memory, pages of {page}, takes {interval(pair.comparison)} times one into "
                "touched memory."
            )
    return sentences
