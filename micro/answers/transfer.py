"""Answers of micro/transfer.py about gradients, layers, processes and new memory."""

from __future__ import annotations

from typing import Any

from kernels.ops.transfer.problem import GRADIENTS
from micro.answers.transfer_curve import rate, timed, way
from micro.findings.phrase import Phrase, sentences
from micro.planning.contest import parse
from reports import units
from reports.record import Run

LINK = 8 * 2**30  # bytes a second: the text's 8 GB/s, as its 0.0256 s takes them
CLAIMED = 0.0256  # seconds, the text's transfer


def gradients(run: Run) -> list[str]:
    """Report transfers of each network's gradient, the fastest first, then the published figure."""
    by_size: dict[int, list[tuple[float, str]]] = {}
    for case, result in timed(run, "gradient/"):
        assert result.seconds is not None
        by_size.setdefault(case.problem.size, []).append((result.seconds.median, way(case)))
    titles = {gradient.nbytes: gradient.title for gradient in GRADIENTS.values()}
    sentences = []
    for size, ways in by_size.items():
        listed = ", ".join(f"{name} {units.seconds(took)} ({rate(size / took)})" for took, name in sorted(ways))
        sentences.append(f"{titles.get(size, 'A gradient')}'s gradient, {units.scaled(size, 'B')}: {listed}.")
    return [*sentences, published()] if sentences else []


def published() -> str:
    """Derive the published 0.0256 s of a gradient's transfer."""
    fcn_r, other = GRADIENTS["fcn-r"].nbytes, 55_000_000 * 4
    repository = 4 * 13_707_264  # bytes of the text's CNTK script's, fcn-r:cntk, without biases
    biased = 4 * 13_714_442
    four = [1e3 * 4 * size / LINK for size in (repository, biased)]
    return (
        f"The text's {CLAIMED} s for FCN-R's gradient (arXiv:1608.07249) is no single one: that is {fcn_r / 8e6:.1f} "
        f"ms at 8 GB/s. Four of the gradients of its CNTK script, which trains 13.7 million parameters, one after the "
        f"other over one link of 8 GiB/s, are {four[0]:.2f} to {four[1]:.2f} ms; 55 million numbers, FCN-S's count in "
        f"that text, are {1e3 * other / LINK:.2f} ms."
    )


def _buffers(problem: Any) -> str:
    net = GRADIENTS.get(problem.buffers)
    return f"{net.title}: in {len(problem.lengths)} buffers, one a layer," if net else "in a hundred equal buffers"


layers = Phrase(
    "layers/",
    "{a:way}, {q:buffers} {items} times what one buffer takes.",
    "{ratio}{q:each}",
    join=" and ",
    words={
        "way": way,
        "buffers": _buffers,
        "each": lambda problem: ", a word awaited for each," if problem.waits == "each" else "",
    },
)


def beside(run: Run) -> list[str]:
    """Report for each size the time of copy and products alone and at once, and the hidden share."""
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


pageable = Phrase(  # memory that is not page-locked against memory that is
    "pageable/",
    "{p.size:bytes}, copied and waited for, times what {a:way} takes ({seconds_a:seconds}, {rate_a:rate}): {items}.",
    "{b:way} {ratio} ({rate_b:rate})",
    words={"way": way},
)
processes = Phrase(  # beside a copy within one process
    "process/",
    "{p.size:bytes} into another process, times what {a:way} takes ({seconds_a:seconds}): {items}.",
    "{b:way} {ratio} ({seconds_b:seconds})",
    when=lambda pair: pair.comparison.baseline == pair.contest.comparisons[0].baseline,
    words={"way": way},
)
_pages = Phrase(
    "memory/",
    "A copy of {q.size:bytes} in huge pages takes {ratio} times one in small ones.",
    when=lambda pair: pair.baseline.problem.page != pair.contender.problem.page,
)
_new = Phrase(
    "memory/",
    "A copy of {q.size:bytes} into new memory, pages of {q.page:bytes}, takes {ratio} times one into touched memory.",
    when=lambda pair: pair.baseline.problem.page == pair.contender.problem.page,
)


def first_touch(run: Run) -> list[str]:
    """Compare new memory with touched memory, and huge pages with small ones."""
    return sentences(run, (_new, _pages))
