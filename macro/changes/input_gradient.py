"""The gradient of the first layer's input, which no training needs, and which some programs ask for."""

from __future__ import annotations

from kernels.ops.gemm.problem import Gemm
from macro.changes import _parts
from macro.changes.base import FAULTS, Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if why := step.refuses_knob("input_gradient", True, compiled=True):
        return why
    if step.plan.phase == "forward":
        return "there is no gradient in a forward"
    return None


def took(before: Before, after: Seen) -> Effect:
    there = after.flag("input_gradient") is True
    return Effect(there, f"the input wants {'a' if there else 'no'} gradient")


def brings(asked: Asked) -> Forecast:
    """Predict one product more, alone: the first layer's dgrad."""
    network, batch = asked.unchanged.plan.network, asked.unchanged.plan.batch
    first = network.nodes[0]
    if first.layer.kind != "dense":
        return Forecast(why="the first layer is no dense one")
    inputs, outputs = first.inputs[0][0], first.output[0]
    product = Gemm(m=batch, n=inputs, k=outputs)  # weights as outputs x inputs
    return Forecast((_parts.added(asked, product, "torch"),))


CHANGE = Change(
    "input-gradient",
    "the gradient of the first layer's input too",
    applies,
    lambda step, value: step.with_knob("input_gradient", True),
    took,
    brings,
    costs="time, for a result that is not used",
    code="x.requires_grad_(True)",
    tries=lambda step: (),
    memory=True,
    looks=(FAULTS,),
)
