"""Cost of transposition in a training step: a network's products in both layouts of its weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from micro.planning.benchmark import Request
from micro.planning.contest import Contest, parse
from reports import units

if TYPE_CHECKING:
    from reports.record import Run

PREFIX = "net"


def contests(asked: Request, libraries: Sequence[str]) -> list[Contest]:
    """Return a contest of weights out×in (OI) against in×out (IO) per GEMM of a step and library."""
    from micro.planning.network import read

    step = read(asked.net, asked.named("m", (None,))[0])
    return [
        Contest(
            f"{PREFIX}/{step.network}/{product.phase}/{'+'.join(product.layers)}/variant:{library}",
            f"W out×in or in×out: which costs {library} less in {product.name}?",
            "layout",
            tuple(asked.case(problem, library) for problem in dict.fromkeys((product.oi, product.io))),
        )
        for library in libraries
        for product in step.products
    ]


@dataclass(frozen=True)
class Product:
    """Results of the contest of one GEMM of a step, in one library."""

    net: str
    library: str
    name: str
    count: int  # layers of the step that compute it
    batch: int
    transposed: tuple[bool, bool]  # whether the GEMM is NT, with OI and with IO
    seconds: float | None  # of one product in OI
    ratio: float | None  # IO over OI
    half: float | None  # half the width of the ratio's interval


def answer(run: Run) -> list[str]:
    """Return sentences on each library's step in both layouts, and on the GEMMs that read W transposed."""
    products = [_product(contest) for contest in run.contests if contest.contest.startswith(f"{PREFIX}/")]
    sentences = [
        sentence
        for library in dict.fromkeys(x.library for x in products)
        for sentence in _step([x for x in products if x.library == library])
    ]
    return [*sentences, _who([x for x in products if x.library == products[0].library])] if sentences else []


def _product(contest: Any) -> Product:
    _, net, phase, layers = contest.contest.split("/")[:4]
    _, again, device = contest.contest.rpartition("/device:")  # of a library that is on two
    base, *other = contest.measured
    problems: list[Any] = [parse(result.name).problem for result in (base, *(other or [base]))]
    ratio: float | None = 1.0  # a square wgrad is one product in both layouts
    half: float | None = 0.0
    for x in contest.comparisons:
        ratio, half = x.ratio, None if x.low is None or x.high is None else (x.high - x.low) / 2
    return Product(
        net,
        base.variant + f" on {device}" * bool(again),
        f"{layers} {phase}",
        len(layers.split("+")),
        problems[0].k if phase == "wgrad" else problems[0].m,
        (problems[0].trans == "nt", problems[1].trans == "nt"),
        base.seconds.median if base.seconds else None,
        ratio,
        half,
    )


def _step(products: list[Product]) -> Iterator[str]:
    """Yield a sentence on a library's step in both layouts, with each GEMM counted once per layer."""
    oi = io = variance = 0.0
    dearest = (0.0, "")
    for x in products:
        if x.seconds is None or x.ratio is None or x.half is None:
            yield f"{x.library}: {x.name} has no ratio, hence none for the step."
            return
        here = x.count * x.seconds
        oi, io, variance = oi + here, io + here * x.ratio, variance + (here * x.half) ** 2
        dearest = max(dearest, (here * (x.ratio - 1), x.name), key=lambda pair: abs(pair[0]))
    ratio, half = io / oi, math.sqrt(variance) / oi
    first = products[0]
    verdict = (
        "the dgrad's transposed W costs more than the forward's"
        if ratio - half > 1
        else "the forward's transposed W costs more than the dgrad's"
        if ratio + half < 1
        else "no measurable difference between the layouts"
    )
    sign = "+" if dearest[0] > 0 else "−"
    yield (
        f"The products of a {first.net} step, batch {first.batch}, take {units.seconds(oi)} with W out×in (OI) in "
        f"{first.library}, and {units.ratio(ratio, ratio - half, ratio + half)} times that with W in×out (IO): "
        f"{verdict}; the largest difference is in {dearest[1]}, {sign}{units.seconds(abs(dearest[0]))}."
    )


def _who(products: list[Product]) -> str:
    """Format which GEMMs are NT, by weight layout."""
    sides = [[x.name for x in products if x.transposed[i]] for i in (0, 1)]
    oi, io = (", ".join(names) or "none" for names in sides)
    return f"W is read transposed (NT) in OI by {oi}; in IO by {io}; every wgrad is TN in both."
