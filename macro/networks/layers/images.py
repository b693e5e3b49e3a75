"""Layers of images: pooling, batch normalization, local response normalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Node, Parameter, Shape, four, image, size

MODES = ("max", "average")  # of poolings
ROUNDINGS = ("floor", "ceil")


@dataclass(frozen=True, kw_only=True)
class Pool(Layer):
    """Pooling by square windows; padding is excluded from maxima and from the count of averages.

    With rounding `ceil`, windows may reach over the edge.
    """

    kind: ClassVar[str] = "pool"

    mode: str = "max"
    window: int = 2  # rows and columns; 0: the whole image
    stride: int = 2
    pads: tuple[int, ...] = ()  # above, left, below, right
    rounding: str = "floor"

    def output(self, inputs: Sequence[Shape]) -> Shape:
        c, h, w = image(inputs, "pooling")
        if self.mode not in MODES or self.rounding not in ROUNDINGS:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, rounding one of {', '.join(ROUNDINGS)}")
        if self.window < 0 or self.stride < 1:
            raise ValueError(f"window {self.window}: must be 0 or more; stride {self.stride}: must be 1 or more")
        if self.window == 0:
            if self.pads:
                raise ValueError("window 0 covers the whole image and allows no pads")
            return (c, 1, 1)
        top, left, bottom, right = four(self.pads)
        if max(top, left, bottom, right) >= self.window:
            raise ValueError(f"pads {self.pads}: must be smaller than the window, {self.window}")
        rows, columns = self._places(h, top, bottom), self._places(w, left, right)
        if min(rows, columns) < 1:
            raise ValueError(f"window {self.window} is larger than the image, {h} × {w}")
        return (c, rows, columns)

    def _places(self, length: int, before: int, behind: int) -> int:
        """Return the number of windows along an axis; a last window that begins beyond the image is dropped."""
        left = length + before + behind - self.window
        places = (left // self.stride if self.rounding == "floor" else -(-left // self.stride)) + 1
        return places - ((places - 1) * self.stride >= length + before)


@dataclass(frozen=True, kw_only=True)
class BatchNorm(Layer):
    """Batch normalization of each channel: y = scale · (x − mean)/√(variance + ε) + shift.

    The batch also updates the running statistics, with its variance times n/(n − 1), as in PyTorch (Ioffe, Szegedy,
    ICML 2015).
    """

    kind: ClassVar[str] = "norm"
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient", "update")

    epsilon: float = 1e-5
    share: float = 0.1  # weight of a batch in the running statistics
    frozen: bool = False  # normalize by the running statistics without updating them
    affine: bool = True  # whether it has scale and shift

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if not (0 < self.epsilon < 1 and 0 <= self.share <= 1):
            raise ValueError(f"epsilon {self.epsilon}, share {self.share}: must be between 0 and 1")
        return image(inputs, "batch normalization")

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        channels = inputs[0][:1]
        return {"scale": Parameter(channels, base=1.0), "shift": Parameter(channels)} if self.affine else {}

    def state(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        channels = inputs[0][:1]
        return {"mean": Parameter(channels), "variance": Parameter(channels, base=1.0)}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes: in training, forward reads x twice, backward x and the gradient of y twice."""
        image_bytes = 4.0 * batch * size(node.output)
        return {
            "forward": (2 if self.frozen else 3) * image_bytes,
            "gradient": (3 if self.frozen else 5) * image_bytes,
        }.get(role, 4.0 * node.count)


@dataclass(frozen=True, kw_only=True)
class LocalResponseNorm(Layer):
    """Local response normalization over `size` channels: y = x / (k + alpha/size · Σ x²)^beta.

    The window is centered on each channel and cut at the edges. Krizhevsky and others, NIPS 2012; alpha is divided by
    the size, as in Caffe, PyTorch and MXNet.
    """

    kind: ClassVar[str] = "lrn"

    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def output(self, inputs: Sequence[Shape]) -> Shape:
        shape = image(inputs, "local response normalization")
        if self.size < 1 or self.size % 2 == 0:
            raise ValueError(f"size {self.size}: must be odd, as the window is centered on a channel")
        if not (self.alpha >= 0 and self.beta > 0 and self.k > 0):
            raise ValueError(f"alpha {self.alpha}, beta {self.beta}, k {self.k}: must be positive (alpha may be 0)")
        return shape

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes: forward x and y; backward x, the gradients of x and y, and the scale."""
        return (2 if role == "forward" else 4) * 4.0 * batch * size(node.output)
