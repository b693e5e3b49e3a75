"""What the finished run of micro/transfer.py says of a step: what is handed over, carried, awaited, sent back
meanwhile, and computed in another memory."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.ops.transfer.problem import PIECES
from micro.answers.band import Pair, grouped, interval, verdict
from micro.answers.transfer_curve import way
from reports import units
from reports.record import Comparison, Run

PROXY = "Of transfers to a GPU this is a proxy for another device: another process, or memory of this one."
ONE_WAY = "On a GPU these are copies over its link, one way; a state is carried back too."


def _share(comparison: Comparison) -> str:
    """`1.6 [1.5, 1.7] %`"""
    middle, low, high = comparison.ratio, comparison.low, comparison.high
    if middle is None or low is None or high is None:
        return "–"
    return f"{100 * middle:.2g} [{100 * low:.2g}, {100 * high:.2g}] %"


def feed(run: Run) -> list[str]:
    """A batch and a state as shares of the products beside them; waits."""
    sentences = [
        f"The feed of a batch, {_size(group)}, is {_shares(group)} of the first product ({_product(group)})."
        for group in grouped(run, "feed/")
    ]
    sentences += [
        f"A recurrent state of {_size(group)}, carried out and in at each step, is {_shares(group)} of the step's "
        f"products ({_product(group)}, in each of two layers)."
        for group in grouped(run, "carried/")
    ]
    for (pair,) in grouped(run, "wait/"):
        size = units.binary(pair.contender.problem.size / PIECES)
        sentences.append(
            f"A hundred steps that hand over {size} each by {way(pair.contender)} take {interval(pair.comparison)} "
            f"times as long with a wait in each as with one for all ({verdict(pair.comparison)})."
        )
    return _marked(run, sentences)


def _size(group: Sequence[Pair]) -> str:
    return units.binary(group[0].contender.problem.size)


def _shares(group: Sequence[Pair]) -> str:
    return ", ".join(f"{_share(pair.comparison)} by {way(pair.contender)}" for pair in group)


def _product(group: Sequence[Pair]) -> str:
    """`64×26752 times 26752×2048 by openblas`"""
    case = group[0].baseline
    x = case.problem
    return f"{x.m}×{x.k} times {x.k}×{x.n} by {way(case)}"


def duplex(run: Run) -> list[str]:
    """Both directions at once over one after the other."""
    sentences = [
        f"{_size(group)} there and back by {way(pair.contender)}, each part sent back as soon as it came: "
        f"{interval(pair.comparison)} times what one direction after the other takes ({verdict(pair.comparison)})."
        for group in grouped(run, "duplex/")
        for pair in group
    ]
    return _marked(run, sentences)


def chain(run: Run) -> list[str]:
    """By way and share of the chain."""
    sentences = []
    for group in grouped(run, "interrupted/"):
        x = group[0].contender.problem
        told = ", ".join(f"{pair.contender.problem.elsewhere}: {interval(pair.comparison)}" for pair in group)
        sentences.append(
            f"Of {x.links} element-wise kernels over {units.binary(x.size)} so many in another process, reached by "
            f"{way(group[0].contender)}, over none: {told} times as long."
        )
    return _marked(run, sentences)


def _marked(run: Run, sentences: list[str]) -> list[str]:
    """With what these figures are not."""
    here = all(result.device == "cpu" for result in run.results)
    return [*sentences, PROXY if here else ONE_WAY] if sentences else []
