"""Local response normalization across channels: y = x / (k + alpha/size · Σ x²)^beta.

Krizhevsky and others, NIPS 2012; alpha divided by the size, as Caffe, PyTorch and MXNet have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Shape, image, size


@dataclass(frozen=True, kw_only=True)
class LocalResponseNorm(Layer):
    """A normalization by `size` neighboring channels, as many before as behind, fewer at the edges."""

    kind: ClassVar[str] = "lrn"

    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def output(self, inputs: Sequence[Shape]) -> Shape:
        shape = image(inputs, "local response normalization")
        if self.size < 1 or self.size % 2 == 0:
            raise ValueError(f"size {self.size}: an odd number of channels, as many before as behind")
        if not (self.alpha >= 0 and self.beta > 0 and self.k > 0):
            raise ValueError(f"alpha {self.alpha}, beta {self.beta}, k {self.k}: not negative, the last two positive")
        return shape

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes: forward x and y; backward x, the gradients of x and y, and the scale."""
        return (2 if role == "forward" else 4) * 4.0 * batch * size(node.output)


LAYER = LocalResponseNorm
