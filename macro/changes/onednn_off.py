"""PyTorch without oneDNN: its own im2col and MKL's products make convolutions."""

from __future__ import annotations

from macro.changes import _alone, _pytorch
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if why := _pytorch.refused(step, "onednn", False):
        return why
    if not step.has("conv"):
        return "only convolutions are oneDNN's, and the network has none"
    return None


def took(before: Before, after: Seen) -> Effect:
    there = after.flag("mkldnn") is False
    return Effect(there, f"PyTorch says that oneDNN is {'off' if there else 'on'}")


def brings(asked: Asked) -> Forecast:
    return _alone.convolutions(asked, {"variant": "torch,torch-im2col"})


CHANGE = Change(
    "onednn-off",
    "convolutions by im2col and MKL's products, not by oneDNN",
    applies,
    lambda step, value: step.with_knob("onednn", False),
    took,
    brings,
    saves=("convolution", "layout reorder"),
    code="torch.backends.mkldnn.set_flags(False)",
    costs="memory for columns; the last bits of results",
)
