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
    """Products and convolutions alone with as many; what passes over data as one pass of PyTorch's alone; the rest as
    it is."""
    row = asked.unchanged.row
    products = _alone.swapped(asked, "threads")
    if products.why or _alone.GEMMS[row] == "numpy":  # whose passes have one thread
        return products
    both = f"{asked.threads},{asked.changed.setting.threads}"
    how = {"variant": "torch", "vary": "threads", "threads": both}
    parts = [products, _alone.convolutions(asked, how)]
    seconds = asked.before.kinds(*PASSES)
    if seconds >= _alone.LARGE * asked.before.seconds:
        passes = {"count": LARGE, "kind": "relu", "phase": "forward", "cold": "all"}
        options = {**_alone.alike(asked), **how, **passes}
        ratio = _alone.measured("elementwise", options, asked.alone / 4)
        parts.append(Forecast((_alone.part("passes over data", seconds, ratio),)))
    return _alone.together(*parts)


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
