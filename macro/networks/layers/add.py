"""Sum of the outputs of two layers, element by element: where a shortcut joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Shape


@dataclass(frozen=True, kw_only=True)
class Add(Layer):
    """An element-wise sum of two layers' outputs."""

    kind: ClassVar[str] = "add"
    inputs_least: ClassVar[int] = 2
    inputs_most: ClassVar[int] = 2

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if inputs[0] != inputs[1]:
            raise ValueError(f"it adds {inputs[0]} and {inputs[1]}: of one shape")
        return inputs[0]

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes of the forward pass; backward, both inputs take the output's gradient unchanged."""
        return super().bytes(node, batch, role) if role == "forward" else 0.0


LAYER = Add
