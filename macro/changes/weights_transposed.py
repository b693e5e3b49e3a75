"""Weights of dense layers in memory as inputs × outputs, where PyTorch has them as outputs × inputs: NT becomes NN
forward, and NN becomes NT in the gradient of the input."""

from __future__ import annotations

from functools import partial

from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes import _alone, _pytorch
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step

SWAPPED = {"forward": ("nt", "nn"), "dgrad": ("nn", "nt")}


def applies(step: Step, value: str) -> str | None:
    if why := _pytorch.refused(step, "weights", "inputs x outputs"):
        return why
    return None if step.has("dense") else "the network has no dense layer"


def took(before: Before, after: Seen) -> Effect:
    told = after.flag("weights")
    return Effect(told == "inputs x outputs", f"weights lie as {told}")


def brings(asked: Asked) -> Forecast:
    """Each product alone in both forms; the gradient of the weights is one of the same form, transposed."""
    parts = []
    for kind, (old, new) in SWAPPED.items():
        seconds: dict[Problem, float] = {}
        for row, x, took in _alone.by_row(asked.before, Gemm, _alone.PRODUCTS):
            if row.endswith(f" {kind}") and isinstance(x, Gemm) and x.trans == old:
                seconds[x] = seconds.get(x, 0.0) + took
        how = {"variant": "torch", "vary": "trans", "trans": f"{old},{new}"}
        if seconds:
            parts.append((sum(seconds.values()), partial(_alone.each, seconds=seconds, how=how)))
    return _alone.shared(asked, *parts)


CHANGE = Change(
    "weights-transposed",
    "dense layers' weights in memory as inputs × outputs",
    applies,
    lambda step, value: step.with_knob("weights", "inputs x outputs"),
    took,
    brings,
    saves=("gemm", "packing"),
    code="layer.weight.data = layer.weight.data.t().contiguous().t()",
    costs="the last bits of results",
)
