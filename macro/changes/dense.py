"""Changes of PyTorch's dense layers: transposed weights, updates fused into the weight-gradient GEMM.

Weights stored as inputs × outputs, where PyTorch stores outputs × inputs: the forward GEMM becomes NN instead of NT,
dgrad NT instead of NN. The fused update is W ← W − rate·dYᵀX in one GEMM, addmm_ inside backward: no gradient is
stored, and no pass over the weights follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kernels.ops.gemm.problem import Gemm
from kernels.ops.update.problem import Update
from kernels.problem import Problem
from macro.changes import _parts
from macro.changes.base import FAULTS, BaselineProfile, Change, Effect, Forecast, PredictionInput, ProcessSnapshot, Step
from macro.networks.layers import Dense

WGRAD, UPDATE = " wgrad", " update"  # suffixes of rows' names
SWAPPED = {"forward": ("nt", "nn"), "dgrad": ("nn", "nt")}  # transposition before and after the change


def _has_own(step: Step) -> bool:
    """Return whether a dense layer has weights of its own."""
    return any(isinstance(node.layer, Dense) and not node.layer.tied for node in step.plan.network.nodes)


def _applies_transposed(step: Step, value: str) -> str | None:
    why = None if _has_own(step) else "the network has no dense layer with weights of its own"
    return step.refuses_knob("weights", "inputs x outputs") or why


def _took_transposed(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    layout = after.identity.get("layout")
    return Effect(layout == "inputs x outputs", f"weights are stored as {layout}")


def _brings_transposed(asked: PredictionInput) -> Forecast:
    """Predict forward and dgrad by measuring each product with both transpositions; wgrad does not change."""
    parts, rows = [], list(_parts.by_row(asked.before, Gemm, _parts.PRODUCTS))
    for kind, (old, new) in SWAPPED.items():
        spent = _parts.gathered(row for row in rows if row[0].endswith(f" {kind}") and _form(row[1]) == old)
        how = {"variant": "torch", "vary": "trans", "trans": f"{old},{new}"}
        parts.append((_parts.total(spent), partial(_parts.each, spent=spent, how=how)))
    same = _parts.gathered(row for row in rows if row[0].endswith(" wgrad") or _form(row[1]) in ("nt", "nn"))
    return _parts.with_rest(asked, "other products", _parts.PRODUCTS, same, _parts.shared(asked, *parts))


def _form(x: Problem) -> str:
    return x.trans if isinstance(x, Gemm) else ""


def _applies_update(step: Step, value: str) -> str | None:
    if why := step.refuses_knob("update", "in wgrad"):
        return why
    if step.plan.phase != "step":
        return f"a {step.plan.phase} has no update"
    if step.plan.network.rule != "sgd":
        return f"a product can only update the weights, not the state of {step.plan.network.rule}"
    return None if _has_own(step) else "the network has no dense layer with weights of its own"


def _took_update(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    update = after.flag("update")
    return Effect(update == "in wgrad", f"weights are updated {update}")


def _brings_update(asked: PredictionInput) -> Forecast:
    """Predict each layer's wgrad and update together, by measuring both forms in isolation."""
    return _parts.each(asked, _parts.gathered(_rows(asked.before)), {"variant": "separate:torch,fused:torch"})


def _rows(before: BaselineProfile) -> Iterator[tuple[str, Problem, float]]:
    layers: dict[str, Update] = {}
    for row, x, took in _parts.by_row(before, Gemm, _parts.PRODUCTS):
        if row.endswith(WGRAD) and isinstance(x, Gemm):
            layers[row.removesuffix(WGRAD)] = update = Update(m=x.m, n=x.n, k=x.k)
            yield row, update, took
    for layer, update in layers.items():
        yield layer + WGRAD, update, sum(took for (rows, _), took in before.cells.items() if rows == (layer + UPDATE,))


CHANGES = (
    Change(
        "weights-transposed",
        "dense layers' weights stored as inputs × outputs",
        _applies_transposed,
        lambda step, value: step.with_knob("weights", "inputs x outputs"),
        _took_transposed,
        _brings_transposed,
        saves=("gemm", "packing"),
        code="layer.weight.data = layer.weight.data.t().contiguous().t()",
        costs="the last bits of results",
        looks=(),
    ),
    Change(
        "update-in-wgrad",
        "dense layers' weights updated inside the wgrad product (addmm_)",
        _applies_update,
        lambda step, value: step.with_knob("update", "in wgrad"),
        _took_update,
        _brings_update,
        saves=("optimizer",),
        measures=("gemm", "optimizer"),
        code="an autograd.Function whose backward does weight.data.addmm_(dy.t(), x, alpha=-rate)",
        costs="the gradients, which are no longer stored",
        memory=True,
        looks=(FAULTS,),
    ),
)
