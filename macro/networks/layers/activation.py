"""Activation as a layer of its own, for an input that other layers take before the activation too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Shape


@dataclass(frozen=True, kw_only=True)
class Activation(Layer):
    """A layer of any shape that only applies its activation."""

    kind: ClassVar[str] = "activation"
    roles: ClassVar[tuple[str, ...]] = ("forward",)  # backward is a view, without a scope

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if self.activation == "none":
            raise ValueError("a layer of kind activation has one: relu or sigmoid")
        return inputs[0]

    def bytes(self, node: Node, batch: int, role: str) -> float:
        return 0.0


LAYER = Activation
