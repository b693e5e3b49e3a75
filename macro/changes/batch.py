"""Another number of samples in a step; seconds are of the whole step, which does more work or less."""

from __future__ import annotations

from dataclasses import replace

from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes import _alone
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Part, Seen, Step

# Kinds whose work grows with the batch, and those in whose rows it is the parameters that are passed over.
PASSES = (
    "element-wise",
    "reduction",
    "softmax and loss",
    "pooling",
    "normalization",
    "copy",
    "clear",
    "layout reorder",
)


def applies(step: Step, value: str) -> str | None:
    if step.script is not None:
        return "a program has its own"
    if not value.isdecimal() or int(value) < 1:
        return "take 1 or more"
    return f"it is {value} already" if int(value) == step.plan.batch else None


def took(before: Before, after: Seen) -> Effect:
    was, now = (x.identity.get("batch") for x in (before, after))
    return Effect(was != now, f"{was} samples before, {now} with it")


def brings(asked: Asked) -> Forecast:
    """Each product alone at both sizes; passes over activations in proportion; updates as they are."""
    if asked.unchanged.row not in _alone.GEMMS:
        return Forecast(why=f"no kernel here calls the products of {asked.unchanged.framework.name}")
    before, share = asked.before, asked.changed.plan.batch / asked.unchanged.plan.batch
    grows = [key for key in before.cells if key[1] in PASSES and not _updates(key[0])]
    seconds = sum(before.cells[key] for key in grows)
    return _alone.together(
        _products(asked, share),
        Forecast((_alone.around("passes over activations", (share - 1) * seconds, 0.1 * abs(share - 1) * seconds),)),
    )


def _updates(rows: tuple[str, ...]) -> bool:
    return bool(rows) and all(row.endswith(" update") for row in rows)


def _products(asked: Asked, share: float) -> Forecast:
    row = asked.unchanged.row
    how = {**_alone.alike(asked), "variant": _alone.GEMMS[row]}
    seconds: dict[tuple[Problem, Problem], float] = {}
    for kind, columns in ((Gemm, _alone.PRODUCTS), (Conv, ("convolution",))):
        for name, x, took in _alone.by_row(asked.before, kind, columns):
            pair = x, _resized(x, name, asked.unchanged.plan.batch, asked.changed.plan.batch)
            seconds[pair] = seconds.get(pair, 0.0) + took
    large = {pair for pair, took in seconds.items() if took >= _alone.LARGE * asked.before.seconds}
    parts: list[Part] = []
    for (x, other), took in seconds.items():
        if (x, other) in large:
            benchmark = "gemm" if isinstance(x, Gemm) else "conv"
            ratio = _alone.apart(benchmark, x, other, how, asked.alone / len(large))
            parts.append(_alone.part(x.name, took, ratio))
        else:
            parts.append(_alone.around(f"{x.name}, as its work", (share - 1) * took, 0.2 * abs(share - 1) * took))
    return Forecast(tuple(parts))


def _resized(x: Problem, row: str, old: int, new: int) -> Problem:
    """With the batch where it was: of a convolution its images; a gradient of weights sums over it."""
    if isinstance(x, Conv):
        return replace(x, n=new)
    order = ("k", "m", "n") if row.endswith("wgrad") else ("m", "n", "k")
    names = [name for name in order if getattr(x, name) == old]
    return replace(x, **{names[0]: new}) if names else x


CHANGE = Change(
    "batch",
    "this many samples in a step, which then does other work",
    applies,
    lambda step, value: replace(step, plan=replace(step.plan, batch=int(value))),
    took,
    brings,
    takes="128",
    costs="what is learned in a step; memory",
    tries=lambda step: (),
)
