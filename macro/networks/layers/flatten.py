"""Images as features: channel by channel, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Shape, size


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """A view of an image as features; nothing is computed."""

    kind: ClassVar[str] = "flatten"

    def output(self, inputs: Sequence[Shape]) -> Shape:
        return (size(inputs[0]),)

    def bytes(self, node: Node, batch: int, role: str) -> float:
        return 0.0


LAYER = Flatten
