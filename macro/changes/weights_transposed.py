"""Weights of dense layers in memory as inputs × outputs, where PyTorch has outputs × inputs.

NT becomes NN forward, and NN becomes NT in the gradient of the input.
"""

from __future__ import annotations

from functools import partial

from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes import _parts
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step

SWAPPED = {"forward": ("nt", "nn"), "dgrad": ("nn", "nt")}


def applies(step: Step, value: str) -> str | None:
    if why := step.refuses_knob("weights", "inputs x outputs"):
        return why
    return None if step.has("dense") else "the network has no dense layer"


def took(before: Before, after: Seen) -> Effect:
    layout = after.identity.get("layout")
    return Effect(layout == "inputs x outputs", f"weights lie as {layout}")


def brings(asked: Asked) -> Forecast:
    """Predict each product alone in both forms; the gradient of the weights keeps its form, transposed."""
    parts, rows = [], list(_parts.by_row(asked.before, Gemm, _parts.PRODUCTS))
    for kind, (old, new) in SWAPPED.items():
        spent = _parts.gathered(row for row in rows if row[0].endswith(f" {kind}") and _form(row[1]) == old)
        how = {"variant": "torch", "vary": "trans", "trans": f"{old},{new}"}
        parts.append((_parts.total(spent), partial(_parts.each, spent=spent, how=how)))
    same = _parts.gathered(row for row in rows if row[0].endswith(" wgrad") or _form(row[1]) in ("nt", "nn"))
    return _parts.with_rest(asked, "other products", _parts.PRODUCTS, same, _parts.shared(asked, *parts))


def _form(x: Problem) -> str:
    return x.trans if isinstance(x, Gemm) else ""


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
    looks=(),
)
