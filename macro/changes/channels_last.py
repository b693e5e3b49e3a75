"""PyTorch's images and filters as NHWC, torch.channels_last: oneDNN's convolutions are then spared their reorders."""

from __future__ import annotations

from macro.changes import _alone, _pytorch
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if why := _pytorch.refused(step, "channels_last", True):
        return why
    if not step.has("conv"):
        return "the network has no images between its layers"
    return None


def took(before: Before, after: Seen) -> Effect:
    there = after.flag("layout") == "channels_last"
    return Effect(there, f"filters lie as {'NHWC' if there else 'NCHW'}")


def brings(asked: Asked) -> Forecast:
    return _alone.convolutions(asked, {"variant": "torch", "vary": "layout", "layout": "nchw,nhwc"})


CHANGE = Change(
    "channels-last",
    "images and filters lie as NHWC (torch.channels_last)",
    applies,
    lambda step, value: step.with_knob("channels_last", True),
    took,
    brings,
    costs="the last bits of results",
    saves=("layout reorder", "convolution"),
    code="model.to(memory_format=torch.channels_last); x = x.contiguous(memory_format=torch.channels_last)",
)
