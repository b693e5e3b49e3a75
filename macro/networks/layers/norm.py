"""Batch normalization: y = scale · (x − mean)/√(variance + ε) + shift of each channel.

Ioffe, Szegedy, ICML 2015.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Parameter, Shape, image, size

EPSILON = 1e-5
SHARE = 0.1  # weight of a batch in the running statistics


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """A normalization by mean and variance of the batch, which also move the running statistics.

    The running variance takes variance · n/(n − 1), as PyTorch has it.
    """

    kind: ClassVar[str] = "norm"
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient", "update")

    epsilon: float = EPSILON
    share: float = SHARE
    frozen: bool = False  # normalize by the running statistics, and keep them
    affine: bool = True  # with scale and shift

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if not (0 < self.epsilon < 1 and 0 <= self.share <= 1):
            raise ValueError(f"epsilon {self.epsilon}, share {self.share}: between 0 and 1")
        return image(inputs, "batch normalization")

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        channels = inputs[0][:1]
        return {"scale": Parameter(channels, base=1.0), "shift": Parameter(channels)} if self.affine else {}

    def state(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        channels = inputs[0][:1]
        return {"mean": Parameter(channels), "variance": Parameter(channels, base=1.0)}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes: in training x is read twice forward; x and the gradient of y twice backward."""
        image_bytes = 4.0 * batch * size(node.output)
        return {
            "forward": (2 if self.frozen else 3) * image_bytes,
            "gradient": (3 if self.frozen else 5) * image_bytes,
        }.get(role, 4.0 * node.count)


LAYER = BatchNorm
