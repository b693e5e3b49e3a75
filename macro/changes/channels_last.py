"""PyTorch's images and filters as NHWC, torch.channels_last: oneDNN's convolutions are then spared their reorders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernels.ops.conv.problem import Conv
from kernels.problem import Problem
from macro.changes import _parts
from macro.changes.base import FAULTS, Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if why := step.refuses_knob("channels_last", True):
        return why
    if not step.has("conv"):
        return "the network has no images between its layers"
    return None


def took(before: Before, after: Seen) -> Effect:
    there = after.flag("layout") == "channels_last"
    return Effect(there, f"filters lie as {'NHWC' if there else 'NCHW'}")


def brings(asked: Asked) -> Forecast:
    """Predict convolutions and poolings from each one alone in both orders.
    Element-wise work does not depend on the order; normalizations do, and are not measured."""
    both = {"vary": "layout", "layout": "nchw,nhwc"}
    before, convolutions = asked.before, _parts.gathered(_parts.by_row(asked.before, Conv, _parts.CONVOLUTIONS))
    parts: list[tuple[float, Callable[[Asked], Forecast]]] = [
        (before.kinds("pooling"), partial(_parts.poolings, how={**both, "variant": "torch"}))
    ]
    for variant in ("torch-bias", "torch"):
        spent = {x: of for x, of in convolutions.items() if variant == _variant(x)}
        parts.append((_parts.total(spent), partial(_parts.each, spent=spent, how={**both, "variant": variant})))
    forecast = _parts.shared(asked, *parts)
    forecast = _parts.with_rest(asked, "other convolutions", _parts.CONVOLUTIONS, convolutions, forecast)
    rest = Forecast((_parts.unknown("normalizations", before.kinds("normalization")),))
    return _parts.together(forecast, rest)


def _variant(x: Problem) -> str:
    """Return the benchmark's variant: with bias, except for dgrad.
    The bias' gradient is a sum over images, slower with channels last."""
    return "torch" if isinstance(x, Conv) and x.direction == "dgrad" else "torch-bias"


CHANGE = Change(
    "channels-last",
    "images and filters lie as NHWC (torch.channels_last)",
    applies,
    lambda step, value: step.with_knob("channels_last", True),
    took,
    brings,
    costs="the last bits of results",
    saves=("layout reorder", "convolution"),
    measures=("layout reorder", "convolution", "pooling"),
    code="model.to(memory_format=torch.channels_last); x = x.contiguous(memory_format=torch.channels_last)",
    memory=True,
    looks=(FAULTS,),
)
