"""Max and average pooling of square images with stride 2; max pooling optionally with ReLU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from kernels import places
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis, direction

STRIDE = 2


@dataclass(frozen=True)
class Pooling(Problem):
    """Pooling without padding, y = pool(x); a step adds dx, the gradient of x, from dy.

    The gradient goes to the first of equal maxima in row-major order; a kernel may store argmax in any form. A window
    with an infinity has an infinite maximum, an average with a NaN is NaN; the maximum of a NaN is not checked.
    """

    op: ClassVar[str] = "pooling"

    images: int = axis("batch size (images)", low=1)
    channels: int = axis("channels", low=1)
    size: int = axis("image height and width", low=2)
    window: int = axis("window height and width", 2, low=2)
    pool: str = axis("pooling", "max", choices=("max", "avg"))
    layout: str = axis("memory layout", "nchw", choices=("nchw", "nhwc"))
    phase: str = direction("forward, or forward and gradient", "forward", "step")
    # y = max(pool(x), 0), which equals pool(max(x, 0)) for the maximum
    relu: str = axis("include a ReLU", "no", choices=("no", "yes"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window not in (2, 3) or self.window > self.size:
            raise UsageError(f"--window {self.window}: must be 2 or 3, and not larger than the image")
        if (self.pool, self.relu) == ("avg", "yes"):
            raise UsageError("--relu yes: average pooling does not commute with ReLU: --pool max")

    @property
    def edge(self) -> int:
        """Edge of the result."""
        return (self.size - self.window) // STRIDE + 1

    @property
    def inputs(self) -> int:
        return self.images * self.channels * self.size**2

    @property
    def results(self) -> int:
        return self.images * self.channels * self.edge**2

    @property
    def flops(self) -> float:
        """FLOPs: one per element of a window, as many again for the gradient; one per result for ReLU."""
        each = self.window**2 * (2.0 if self.phase == "step" else 1.0)
        return self.results * (each + (self.relu == "yes"))

    def shape(self, edge: int) -> tuple[int, ...]:
        if self.layout == "nhwc":
            return (self.images, edge, edge, self.channels)
        return (self.images, self.channels, edge, edge)

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 0}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {"x": (math.inf,) if self.pool == "max" else (math.nan,)}

    def operands(self) -> tuple[Operand, ...]:
        x, y = Operand("x", self.shape(self.size), "in"), Operand("y", self.shape(self.edge), "out")
        if self.phase == "forward":
            return x, y
        return x, Operand("dy", y.shape, "in"), y, Operand("dx", x.shape, "out")

    def planes(self, x: Array) -> Array:
        """Return a view with the axes images, channels, row, column."""
        return x.transpose(0, 3, 1, 2) if self.layout == "nhwc" else x

    def windows(self, x: Array) -> list[Array]:
        """Return, for each place in a window, a strided view of the elements at that place in all windows."""
        last = STRIDE * (self.edge - 1) + 1
        places = [(r, c) for r in range(self.window) for c in range(self.window)]
        return [x[..., r : r + last : STRIDE, c : c + last : STRIDE] for r, c in places]

    def _scattered(self, d: Array, x: Array) -> Array:
        """Return the float64 gradient of x from d, the gradient of y."""
        gradient = np.zeros(x.shape)
        views = self.windows(x)
        if self.pool == "max":
            at = np.argmax(np.stack(views), axis=0)
            top = np.max(np.stack(views), axis=0)
            d = np.where(top > 0, d, 0) if self.relu == "yes" else d
        for i, view in enumerate(self.windows(gradient)):
            view += d / self.window**2 if self.pool == "avg" else np.where(at == i, d, 0)
        return gradient

    def _laid(self, planes: Array) -> Array:
        """Return `planes` in the layout's order of axes."""
        return planes.transpose(0, 2, 3, 1) if self.layout == "nhwc" else planes

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        images = places.rows(rng, self.images, self.channels * self.size**2)
        return self.excerpt_rows(images, images=len(images))

    def reference(self, x: Arrays) -> dict[str, Array]:
        image = self.planes(x["x"])
        views = self.windows(image)
        pooled = np.max(views, axis=0).astype("f8") if self.pool == "max" else np.mean(views, axis=0, dtype="f8")
        outputs = {"y": self._laid(np.maximum(pooled, 0) if self.relu == "yes" else pooled)}
        if self.phase == "step":
            outputs["dx"] = self._laid(self._scattered(self.planes(x["dy"]), image))
        return outputs

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound sums of at most nine (averages) or four terms (gradients); a maximum is exact."""
        sizes = {name: np.abs(array) if name == "dy" or self.pool == "avg" else array for name, array in x.items()}
        bounds = {name: 8 * u * size for name, size in self.reference(sizes).items()}
        if self.pool == "max":
            bounds["y"] = np.zeros_like(bounds["y"])
        return bounds
