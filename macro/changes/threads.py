"""Another number of threads, for the framework and its libraries."""

from __future__ import annotations

from dataclasses import replace

from kernels.devices.cpu import cores
from macro.changes import _alone
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step

PASSES = ("element-wise", "optimizer", "copy", "clear", "reduction", "softmax and loss", "pooling", "normalization")
LARGE = 1 << 22  # elements of the pass that stands for all


def applies(step: Step, value: str) -> str | None:
    if not value.isdecimal() or not 1 <= int(value) <= cores():
        return f"this process may use 1 to {cores()} cores"
    return f"it has {value} already" if int(value) == step.setting.threads else None


def took(before: Before, after: Seen) -> Effect:
    was, now = (x.identity.get("threads") for x in (before, after))
    return Effect(was != now, f"threads {was} before, {now} with it")


def brings(asked: Asked) -> Forecast:
    """Products alone with as many; what passes over data as one pass of PyTorch's alone; the rest as it is."""
    products = _alone.swapped(asked, "threads")
    seconds = asked.before.kinds(*PASSES)
    if products.why or seconds < 0.01 * asked.before.seconds:
        return products
    both = f"{asked.threads},{asked.changed.setting.threads}"
    options = {**_alone.alike(asked), "count": LARGE, "kind": "relu", "phase": "forward", "cold": "all"}
    options |= {"vary": "threads", "threads": both}
    if _alone.GEMMS[asked.unchanged.framework.name.partition("~")[0]] == "numpy":  # its passes have one thread
        return products
    ratio = _alone.measured("elementwise", {**options, "variant": "torch"}, asked.alone / 4)
    return _alone.together(products, Forecast((_alone.part("passes over data", seconds, ratio),)))


CHANGE = Change(
    "threads",
    "this many threads",
    applies,
    lambda step, value: replace(step, setting=replace(step.setting, threads=int(value))),
    took,
    brings,
    takes="2",
    tries=lambda step: (str(cores()),),
    costs="cores; the last bits of results",
)
