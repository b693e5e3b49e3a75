"""Weights of dense layers moved by the product of their gradient, W ← W − rate·dYᵀX in one GEMM.

No gradient is kept and no pass follows it: PyTorch's addmm_ within the backward.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernels.ops.gemm.problem import Gemm
from kernels.ops.update.problem import Update
from kernels.problem import Problem
from macro.changes import _parts
from macro.changes.base import FAULTS, Asked, Before, Change, Effect, Forecast, Seen, Step

WGRAD, UPDATE = " wgrad", " update"  # ends of the names of rows


def applies(step: Step, value: str) -> str | None:
    if why := step.refuses_knob("update", "in wgrad"):
        return why
    if step.plan.phase != "step":
        return f"there is no update in a {step.plan.phase}"
    if step.plan.network.rule != "sgd":
        return f"a product adds to the weights alone, not to what {step.plan.network.rule} keeps"
    return None if step.has("dense") else "the network has no dense layer"


def took(before: Before, after: Seen) -> Effect:
    update = after.flag("update")
    return Effect(update == "in wgrad", f"weights are moved {update}")


def brings(asked: Asked) -> Forecast:
    """Predict both forms of each layer alone, over the seconds of its wgrad product and its update."""
    return _parts.each(asked, _parts.gathered(_rows(asked.before)), {"variant": "separate:torch,fused:torch"})


def _rows(before: Before) -> Iterator[tuple[str, Problem, float]]:
    layers: dict[str, Update] = {}
    for row, x, took in _parts.by_row(before, Gemm, _parts.PRODUCTS):
        if row.endswith(WGRAD) and isinstance(x, Gemm):
            layers[row.removesuffix(WGRAD)] = update = Update(m=x.m, n=x.n, k=x.k)
            yield row, update, took
    for layer, update in layers.items():
        yield layer + WGRAD, update, sum(took for (rows, _), took in before.cells.items() if rows == (layer + UPDATE,))


CHANGE = Change(
    "update-in-wgrad",
    "dense layers' weights moved by the product that would give their gradient (addmm_)",
    applies,
    lambda step, value: step.with_knob("update", "in wgrad"),
    took,
    brings,
    saves=("optimizer",),
    measures=("gemm", "optimizer"),
    code="an autograd.Function whose backward does weight.data.addmm_(dy.t(), x, alpha=-rate)",
    costs="the gradients, which nobody can look at any more",
    memory=True,
    looks=(FAULTS,),
)
