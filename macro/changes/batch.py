"""Another number of samples in a step; seconds are of the whole step, which does more work or less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes import _alone
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step

# Kinds whose work grows with the batch, and those in whose rows it is the parameters that are passed over.
PASSES = ("element-wise", "reduction", "softmax and loss", "normalization", "copy", "clear")


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
    """Each product, convolution and pooling alone at both sizes; passes over activations in proportion; updates as
    they are."""
    variant = _alone.GEMMS.get(asked.unchanged.row)
    if variant is None:
        return Forecast(why=f"no kernel here calls the products of {asked.unchanged.framework.name}")
    before, batches = asked.before, (asked.unchanged.plan.batch, asked.changed.plan.batch)
    images = {name: _along(name, batches, "torch") for name in ("n", "images")}
    parts: list[tuple[float, Callable[[Asked], Forecast]]] = [
        (before.kinds(*_alone.CONVOLUTIONS), partial(_alone.convolutions, how=images["n"])),
        (before.kinds("pooling"), partial(_alone.poolings, how=images["images"])),
    ]
    for axis, seconds in _products(asked).items():
        how = _along(axis, batches, variant)
        parts.append((sum(seconds.values()), partial(_alone.each, seconds=seconds, how=how)))
    grows = sum(took for (rows, kind), took in before.cells.items() if kind in PASSES and not _updates(rows))
    more = (batches[1] / batches[0] - 1) * grows
    passes = Forecast((_alone.around("passes over activations", more, abs(more) / 10),))
    return _alone.together(_alone.shared(asked, *[x for x in parts if x[0]]), passes)


def _along(axis: str, batches: tuple[int, int], variant: str) -> dict[str, Any]:
    return {"variant": variant, "vary": axis, axis: f"{batches[0]},{batches[1]}"}


def _updates(rows: tuple[str, ...]) -> bool:
    return bool(rows) and all(row.endswith(" update") for row in rows)


def _products(asked: Asked) -> dict[str, dict[Problem, float]]:
    """Those of the step by the axis that is the batch, and their seconds."""
    found: dict[str, dict[Problem, float]] = {}
    for row, x, took in _alone.by_row(asked.before, Gemm, _alone.PRODUCTS):
        if axis := _axis(x, row, asked.unchanged.plan.batch):
            of = found.setdefault(axis, {})
            of[x] = of.get(x, 0.0) + took
    return found


def _axis(x: Problem, row: str, batch: int) -> str | None:
    """Where a product has the batch: a gradient of weights sums over it."""
    order = ("k", "m", "n") if row.endswith("wgrad") else ("m", "n", "k")
    return next((name for name in order if getattr(x, name) == batch), None)


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
    memory=True,
)
