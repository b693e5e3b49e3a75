"""The change of a script's forward pass to bfloat16 by PyTorch's autocast."""

from __future__ import annotations

from macro.changes.base import BaselineProfile, Change, Effect, Forecast, PredictionInput, ProcessSnapshot, Step


def _applies(step: Step, value: str) -> str | None:
    return None if step.script is not None else "networks are compared in one type; change a script"


def _took(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    there = after.flag("autocast") == "bfloat16"
    return Effect(there, f"modules are called {'under' if there else 'without'} autocast")


def _brings(asked: PredictionInput) -> Forecast:
    return Forecast(why="kernels that cast between types are not measured by themselves")


CHANGE = Change(
    "bf16-autocast",
    "the forward pass of a script's modules in bfloat16 (torch.autocast)",
    _applies,
    lambda step, value: step,
    _took,
    _brings,
    costs="16 bits of each product's inputs and outputs",
    code="with torch.autocast('cpu', torch.bfloat16): output = model(x)",
    trial="bf16",
    memory=True,
    looks=(),
    alone=False,
)
