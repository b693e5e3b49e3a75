"""Convolutions small enough to be repeated in float64 on a processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.libs.cudnn import Layer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """Cross-correlation of n images c×h×h with k filters c×r×r, r odd: stride 1, as many outputs as inputs."""

    n: int
    c: int
    h: int
    k: int
    r: int

    @property
    def name(self) -> str:
        return f"{self.n}x{self.c}x{self.h}x{self.h} to {self.k}, {self.r}x{self.r}"

    @property
    def pad(self) -> int:
        return self.r // 2

    @property
    def dims(self) -> dict[str, tuple[int, int, int, int]]:
        """Of the images, the filters, the outputs; their gradients have the same."""
        image = (self.n, self.c, self.h, self.h)
        return {"x": image, "w": (self.k, self.c, self.r, self.r), "y": (self.n, self.k, self.h, self.h)}

    @property
    def layer(self) -> Layer:
        """As cuDNN is told of it."""
        return Layer(self.dims["x"], self.dims["w"], self.dims["y"], (self.pad, self.pad))


SMALL = (Shape(8, 16, 28, 32, 3), Shape(8, 16, 28, 32, 5))
LAYER = Shape(128, 64, 27, 192, 5)  # the second one of AlexNet's: listed, not run


def operands(shape: Shape, seed: int = 1) -> dict[str, Any]:
    """Fresh normal numbers in single precision under x, w, y (that one: an output's gradient)."""
    import numpy as np

    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(dims, np.float32) for name, dims in shape.dims.items()}


def reference(output: str, shape: Shape, given: dict[str, Any]) -> Array:
    """What `output` is in double precision, of the two others."""
    import numpy as np

    x, w, y = (given[name].astype(np.float64) for name in "xwy")
    if output == "y":
        return _correlate(x, w, shape.pad)
    if output == "x":  # the gradient of the images: the filters turned and their two channels exchanged
        return _correlate(y, w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), shape.pad)
    return np.tensordot(y, _windows(x, shape.r, shape.pad), ((0, 2, 3), (0, 2, 3)))


def _windows(x: Array, r: int, pad: int) -> Array:
    """n×c×h×h×r×r: the inputs of each output."""
    import numpy as np

    around = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return np.lib.stride_tricks.sliding_window_view(around, (r, r), (2, 3))


def _correlate(x: Array, w: Array, pad: int) -> Array:
    import numpy as np

    seen = _windows(x, w.shape[2], pad)
    y: Array = np.tensordot(seen, w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    return y
