"""Answers of micro/transfer.py about a step: feeds, carried state, waits, duplex copies, chains."""

from __future__ import annotations

from typing import Any

from kernels.ops.transfer.problem import PIECES
from micro.answers.transfer_curve import way
from micro.findings.phrase import Phrase, sentences
from reports import units
from reports.record import Comparison, Run

PROXY = "Of transfers to a GPU this is a proxy for another device: another process, or memory of this one."
ONE_WAY = "On a GPU these are copies over its link, one way; a state is carried back too."


def _share(comparison: Comparison) -> str:
    """Format a share: `1.6 [1.5, 1.7] %`."""
    middle, low, high = comparison.ratio, comparison.low, comparison.high
    if middle is None or low is None or high is None:
        return "–"
    return f"{100 * middle:.2g} [{100 * low:.2g}, {100 * high:.2g}] %"


def _product(case: Any) -> str:
    """Format a product: `64×26752 times 26752×2048 by openblas`."""
    x = case.problem
    return f"{x.m}×{x.k} times {x.k}×{x.n} by {way(case)}"


_WORDS = {"way": way, "product": _product, "share": _share, "piece": lambda x: units.binary(x.size / PIECES)}
_STEPS = (
    Phrase(
        "feed/",
        "The feed of a batch, {q.size:bytes}, is {items} of the first product ({a:product}).",
        "{comparison:share} by {b:way}",
        words=_WORDS,
    ),
    Phrase(
        "carried/",
        "A recurrent state of {q.size:bytes}, carried out and in at each step, is {items} of the step's products "
        "({a:product}, in each of two layers).",
        "{comparison:share} by {b:way}",
        words=_WORDS,
    ),
    Phrase(
        "wait/",
        "A hundred steps that hand over {q:piece} each by {b:way} take {ratio} times as long with a wait in each as "
        "with one for all ({verdict}).",
        words=_WORDS,
    ),
)
_DUPLEX = Phrase(
    "duplex/",
    "{q.size:bytes} there and back by {b:way}, each part sent back as soon as it came: {ratio} times what one "
    "direction after the other takes ({verdict}).",
    by="",
    words=_WORDS,
)
_CHAIN = Phrase(
    "interrupted/",
    "Of {q.links} element-wise kernels over {q.size:bytes} so many in another process, reached by {b:way}, over none: "
    "{items} times as long.",
    "{q.elsewhere}: {ratio}",
    words=_WORDS,
)


def feed(run: Run) -> list[str]:
    """Return a batch and a state as shares of the products beside them, and what waits cost."""
    return _marked(run, sentences(run, _STEPS))


def duplex(run: Run) -> list[str]:
    """Compare both directions at once with one after the other."""
    return _marked(run, _DUPLEX(run))


def chain(run: Run) -> list[str]:
    """Compare chains of kernels by the share that another process computes."""
    return _marked(run, _CHAIN(run))


def _marked(run: Run, sentences: list[str]) -> list[str]:
    """Append the limits of these figures."""
    here = all(result.device == "cpu" for result in run.results)
    return [*sentences, PROXY if here else ONE_WAY] if sentences else []
