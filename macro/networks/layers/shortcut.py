"""Shortcut without parameters: every `stride`th row and column, and channels of zeros behind.

Option A of He, Zhang, Ren, Sun, CVPR 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Shape, image, size


@dataclass(frozen=True, kw_only=True)
class Shortcut(Layer):
    """A shortcut by subsampling; `channels`: of its output."""

    kind: ClassVar[str] = "shortcut"

    channels: int
    stride: int = 2

    def output(self, inputs: Sequence[Shape]) -> Shape:
        c, h, w = image(inputs, "a shortcut")
        if self.stride < 1:
            raise ValueError(f"stride {self.stride}: 1 or more")
        if self.channels < c:
            raise ValueError(f"a shortcut of {self.channels} channels takes {c}: it adds channels")
        return (self.channels, -(-h // self.stride), -(-w // self.stride))

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes of the sampled rows and columns, and of the array that a role writes."""
        _, rows, columns = node.output
        taken, written = node.inputs[0][0] * rows * columns, node.output if role == "forward" else node.inputs[0]
        return 4.0 * batch * (taken + size(written))


LAYER = Shortcut
