"""Batch normalization: y = scale · (x − mean)/√(variance + ε) + shift of each channel (Ioffe, Szegedy, ICML 2015)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Parameter, Shape, image, size

EPSILON = 1e-5
SHARE = 0.1  # of a batch's statistics, in the running ones after it


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """By mean and variance of the batch, from which running ones follow (variance · n/(n − 1), as PyTorch has it).
    `frozen`: by the running ones, which then stay. Not `affine`: without scale and shift."""

    kind: ClassVar[str] = "norm"
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient", "update")

    epsilon: float = EPSILON
    share: float = SHARE
    frozen: bool = False
    affine: bool = True

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
        """x is read twice forward, in training; x and the gradient of y twice backward."""
        image_bytes = 4.0 * batch * size(node.output)
        return {
            "forward": (2 if self.frozen else 3) * image_bytes,
            "gradient": (3 if self.frozen else 5) * image_bytes,
        }.get(role, 4.0 * node.count)


LAYER = BatchNorm
