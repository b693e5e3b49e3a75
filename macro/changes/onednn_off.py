"""PyTorch without oneDNN: its own im2col and MKL's products make convolutions."""

from __future__ import annotations

from typing import Any

from kernels.ops.conv.problem import Conv
from kernels.problem import Problem
from macro.changes import _alone
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if step.framework.name.partition("~")[0] != "pytorch":
        return f"no switch of {step.framework.name}'s is known here"
    if step.knob("onednn") is False:
        return "it is off already"
    if not any(node.layer.kind == "conv" for node in step.plan.network.nodes):
        return "only convolutions are oneDNN's, and the network has none"
    return None


def took(before: Before, after: Seen) -> Effect:
    there = after.identity.get("flags", {}).get("mkldnn") is False
    return Effect(there, f"PyTorch says that oneDNN is {'off' if there else 'on'}")


def brings(asked: Asked) -> Forecast:
    def options(x: Problem) -> dict[str, Any]:
        return {**_alone.axes(x), **_alone.alike(asked), "variant": "torch,torch-im2col", "cold": "all"}

    columns = ("convolution", "layout reorder")
    return _alone.each(asked, _alone.problems(asked.before, Conv, columns), "conv", options)


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
