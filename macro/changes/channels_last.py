"""PyTorch's images and filters as NHWC, torch.channels_last: oneDNN's convolutions are then spared their reorders."""

from __future__ import annotations

from macro.changes import _parts, _pytorch
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
    """Convolutions and poolings alone in both orders. What is element-wise does not see the order; normalizations do,
    and nobody measured them."""
    both = {"variant": "torch", "vary": "layout", "layout": "nchw,nhwc"}
    before = asked.before
    found = _parts.shared(
        asked,
        (before.kinds(*_parts.CONVOLUTIONS), lambda one: _parts.convolutions(one, both)),
        (before.kinds("pooling"), lambda one: _parts.poolings(one, both)),
    )
    rest = Forecast((_parts.unknown("normalizations", before.kinds("normalization")),))
    return _parts.together(found, rest)


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
    memory=True,
)
