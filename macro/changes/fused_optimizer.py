"""PyTorch's optimizer in one pass over each parameter: fused=True."""

from __future__ import annotations

from macro.changes import _alone, _pytorch
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if why := _pytorch.refused(step, "optimizer", "fused", compiled=True):
        return why
    if step.plan.phase != "step":
        return f"there is no optimizer in a {step.plan.phase}"
    return None


def took(before: Before, after: Seen) -> Effect:
    there = after.flag("optimizer") == "fused"
    return Effect(there, f"PyTorch's optimizer is {after.flag('optimizer')}")


def brings(asked: Asked) -> Forecast:
    """The rule alone, over as many parameters as the largest layer's, one tensor a time, as now, and fused."""
    before, network = asked.before, asked.unchanged.plan.network
    seconds = before.kinds("optimizer")
    if not seconds:
        return Forecast(why="no row of its is an optimizer's")
    sizes = [size for node in network.nodes if (size := node.count)]
    options = {
        "rule": "momentum" if network.momentum else "sgd",
        "tensors": min(len(sizes), 16),
        "size": max(1024, sum(sizes) // len(sizes)),
        "variant": "torch-foreach,torch-fused" if _foreach(before) else "torch-loop,torch-fused",
        "cold": "all",
        **_alone.alike(asked),
    }
    return Forecast((_alone.part("optimizer", seconds, _alone.measured("optimizer", options, asked.alone)),))


def _foreach(before: Before) -> bool:
    """Whether it takes all tensors at once now, by the functions that samples are in."""
    return any("foreach" in x for x in before.symbols)


CHANGE = Change(
    "fused-optimizer",
    "the optimizer's step in one pass over each parameter (fused=True)",
    applies,
    lambda step, value: step.with_knob("optimizer", "fused"),
    took,
    brings,
    saves=("optimizer",),
    code="torch.optim.SGD(…, fused=True)",
)
