"""Another number of samples in a step; seconds are of the whole step, which does more work or less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes import _parts
from macro.changes.base import FAULTS, Asked, Before, Change, Effect, Forecast, Seen, Step


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
    """Predict products, convolutions and poolings from each one alone at both sizes.
    Passes over activations change in proportion; updates stay as they are."""
    variant = _parts.GEMMS.get(asked.unchanged.row)
    if variant is None:
        return Forecast(why=f"no kernel here calls the products of {asked.unchanged.framework.name}")
    before, batches = asked.before, (asked.unchanged.plan.batch, asked.changed.plan.batch)
    parts: list[tuple[float, Callable[[Asked], Forecast]]] = []
    rows = list(_parts.by_row(before, Gemm, _parts.PRODUCTS))
    for axis in ("m", "n", "k"):
        spent = _parts.gathered(row for row in rows if _axis(row[1], row[0], batches[0]) == axis)
        how = _along(axis, batches, variant)
        parts.append((_parts.total(spent), partial(_parts.each, spent=spent, how=how)))
    grows: tuple[str, ...] = _parts.PASSES
    more = batches[1] / batches[0] - 1
    if variant == "torch":
        images = {name: _along(name, batches, variant) for name in ("n", "images")}
        parts.append((before.kinds(*_parts.CONVOLUTIONS), partial(_parts.convolutions, how=images["n"])))
        parts.append((before.kinds("pooling"), partial(_parts.poolings, how=images["images"])))
    else:
        grows = (*grows, *_parts.CONVOLUTIONS, "pooling")
    passed = more * sum(took for (rows, kind), took in before.cells.items() if kind in grows and not _updates(rows))
    passes = Forecast((_parts.around("passes over activations", passed, abs(passed) / 10),))
    products = _parts.with_rest(
        asked, "other products", _parts.HAVE_PRODUCTS, _parts.gathered(rows), _parts.shared(asked, *parts)
    )
    return _parts.together(products, passes)


def _along(axis: str, batches: tuple[int, int], variant: str) -> dict[str, Any]:
    return {"variant": variant, "vary": axis, axis: f"{batches[0]},{batches[1]}"}


def _updates(rows: tuple[str, ...]) -> bool:
    return bool(rows) and all(row.endswith(" update") for row in rows)


def _axis(x: Problem, row: str, batch: int) -> str | None:
    """Return the axis of a product that is the batch; None where there is none, and its size stays.
    A gradient of weights sums over the batch."""
    order = ("k", "m", "n") if row.endswith("wgrad") else ("m", "n", "k")
    sizes = asdict(x)
    return next((name for name in order if sizes[name] == batch), None)


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
    looks=(FAULTS,),
)
