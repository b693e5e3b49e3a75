"""PyTorch's images and filters as NHWC, torch.channels_last: oneDNN's convolutions are then spared their reorders."""

from __future__ import annotations

from typing import Any

from kernels.ops.conv.problem import Conv
from kernels.problem import Problem
from macro.changes import _alone
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if step.framework.name.partition("~")[0] != "pytorch":
        return f"no switch of {step.framework.name}'s is known here"
    if step.knob("channels_last"):
        return "it is made already"
    if not any(node.layer.kind == "conv" for node in step.plan.network.nodes):
        return "the network has no images between its layers"
    return None


def took(before: Before, after: Seen) -> Effect:
    there = after.identity.get("flags", {}).get("layout") == "channels_last"
    return Effect(there, f"filters lie as {'NHWC' if there else 'NCHW'}")


def brings(asked: Asked) -> Forecast:
    def options(x: Problem) -> dict[str, Any]:
        return {
            **_alone.axes(x),
            **_alone.alike(asked),
            "variant": "torch",
            "vary": "layout",
            "layout": "nchw,nhwc",
            "cold": "all",
        }

    columns = ("convolution", "layout reorder")
    return _alone.each(asked, _alone.problems(asked.before, Conv, columns), "conv", options)


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
