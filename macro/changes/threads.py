"""Another number of threads, for the framework and its libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.devices.cpu import cores
from macro.changes import _alone, _parts
from macro.changes.base import FAULTS, Asked, Before, Change, Effect, Forecast, Seen, Step

PASSES = (*_parts.PASSES, "optimizer")
LARGE = 1 << 22  # elements of the pass that stands for all


def applies(step: Step, value: str) -> str | None:
    if not value.isdecimal() or not 1 <= int(value) <= cores():
        return f"give a number: this process may use 1 to {cores()} cores"
    return f"it has {value} already" if int(value) == step.setting.threads else None


def tries(step: Step) -> list[str]:
    """Return 1, half of the cores and all, without the present number."""
    return [str(count) for count in sorted({1, max(1, cores() // 2), cores()} - {step.setting.threads})]


def took(before: Before, after: Seen) -> Effect:
    was, now = (x.identity.get("threads") for x in (before, after))
    return Effect(was != now, f"threads {was} before, {now} with it")


def brings(asked: Asked) -> Forecast:
    """Predict products, convolutions and poolings from each one alone, on both numbers of threads.
    Passes over data change as one pass of PyTorch's alone; the rest stays as it is."""
    before = asked.before
    products = before.kinds(*_parts.HAVE_PRODUCTS), lambda x: _parts.swapped(x, "threads")
    if _parts.GEMMS.get(asked.unchanged.row) != "torch":  # NumPy's passes have one thread, its convolutions partly more
        forecast, others = products[1](asked), before.kinds(*_parts.CONVOLUTIONS)
        return _parts.together(forecast, Forecast((_parts.unknown("convolutions", others),) if others else ()))
    both = f"{asked.threads},{asked.changed.setting.threads}"
    how = {"variant": "torch", "vary": "threads", "threads": both}
    convolutions = before.kinds(*_parts.CONVOLUTIONS), lambda x: _parts.convolutions(x, how)
    poolings = before.kinds("pooling"), lambda x: _parts.poolings(x, how)
    seconds = before.kinds(*PASSES)
    return _parts.shared(asked, products, convolutions, poolings, (seconds, partial(_passes, how=how)))


def _passes(asked: Asked, how: Mapping[str, Any]) -> Forecast:
    seconds = asked.before.kinds(*PASSES)
    if seconds < _parts.LARGE * asked.before.seconds:
        return Forecast((_parts.unknown("passes over data", seconds),))
    relu = {"count": LARGE, "kind": "relu", "phase": "forward", "cold": "all"}
    ratio = _alone.measured("elementwise", {**_parts.alike(asked), **how, **relu}, asked.alone)
    return Forecast((_parts.part("passes over data", seconds, ratio),))


CHANGE = Change(
    "threads",
    "this many threads",
    applies,
    lambda step, value: replace(step, setting=replace(step.setting, threads=int(value))),
    took,
    brings,
    takes="2",
    tries=tries,
    costs="cores; the last bits of results",
    memory=True,
    looks=(FAULTS,),
)
