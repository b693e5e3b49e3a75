"""Fully connected layer: y = x·W + b, x batch × inputs, W inputs × outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.networks.layer import Layer, Node, Parameter, Shape, size


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """A fully connected layer; `outputs`: its number of features."""

    kind: ClassVar[str] = "dense"
    roles: ClassVar[tuple[str, ...]] = ("forward", "dgrad", "wgrad", "bias gradient", "update")

    outputs: int

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs[0]) != 1:
            raise ValueError(f"a dense layer takes features, not images {inputs[0]}: flatten them")
        return (self.outputs,)

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        (wide,) = inputs[0]
        return {"weight": Parameter((wide, self.outputs), wide), "bias": Parameter((self.outputs,))}

    def problems(self, node: Node, batch: int) -> Mapping[str, tuple[Problem, ...]]:
        """Return the products by role, with W stored inputs × outputs."""
        (inputs,) = node.inputs[0]
        return {
            "forward": (Gemm(batch, self.outputs, inputs, "nn"),),
            "dgrad": (Gemm(batch, inputs, self.outputs, "nt"),),
            "wgrad": (Gemm(inputs, self.outputs, batch, "tn"),),
        }

    def bytes(self, node: Node, batch: int, role: str) -> float:
        return weighted(node, batch, role)


def weighted(node: Node, batch: int, role: str) -> float:
    """Return the bytes of a role beside its product, for a layer of weights and an optional bias."""
    out, inputs = 4.0 * batch * size(node.output), 4.0 * batch * size(node.inputs[0])
    added = 2 * out if "bias" in node.parameters else 0.0
    return {"forward": added, "dgrad": inputs, "bias gradient": out}.get(role, 4.0 * node.count)


LAYER = Dense
