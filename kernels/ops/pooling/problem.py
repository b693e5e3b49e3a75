"""Max and average pooling of square images, windows two apart; with ReLU, which commutes with the maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kernels.errors import UsageError
from kernels.problem import Operand, Problem, axis

if TYPE_CHECKING:
    from kernels.problem import Array, Arrays

STRIDE = 2


@dataclass(frozen=True)
class Pooling(Problem):
    """y = pool(x), no padding, windows that fit alone; a step adds the gradient of x from d, that of y, in a second
    part of y. The gradient goes to the first of equal maxima, row by row.

    `relu`: y = max(pool(x), 0), which is pool(max(x, 0)) where pool is the maximum: one answer, whichever is first.
    """

    op: ClassVar[str] = "pooling"

    images: int = axis("images of the batch", low=1)
    channels: int = axis("channels", low=1)
    size: int = axis("edge of an image", low=2)
    window: int = axis("edge of a window", 2, low=2)
    pool: str = axis("which pooling", "max", choices=("max", "avg"))
    layout: str = axis("order of the axes", "nchw", choices=("nchw", "nhwc"))
    phase: str = axis("forward, or forward and gradient", "forward", choices=("forward", "step"))
    relu: str = axis("whether a ReLU belongs to it", "no", choices=("no", "yes"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window not in (2, 3) or self.window > self.size:
            raise UsageError(f"--window {self.window}: there are 2 and 3, in images that hold them")
        if (self.pool, self.relu) == ("avg", "yes"):
            raise UsageError("--relu yes: an average does not commute with it; --pool max")

    @property
    def edge(self) -> int:
        """Of the result."""
        return (self.size - self.window) // STRIDE + 1

    @property
    def inputs(self) -> int:
        return self.images * self.channels * self.size**2

    @property
    def results(self) -> int:
        return self.images * self.channels * self.edge**2

    @property
    def flops(self) -> float:
        """A comparison or addition for each element of a window, once more for the gradient; ReLU one each."""
        each = self.window**2 * (2.0 if self.phase == "step" else 1.0)
        return self.results * (each + (self.relu == "yes"))

    @property
    def bytes(self) -> float:
        return float(self.footprint)

    def shape(self, edge: int) -> tuple[int, ...]:
        if self.layout == "nhwc":
            return (self.images, edge, edge, self.channels)
        return (self.images, self.channels, edge, edge)

    def operands(self) -> tuple[Operand, ...]:
        x = Operand("x", self.shape(self.size), "in")
        if self.phase == "forward":
            return x, Operand("y", (1, self.results), "out")
        d = Operand("d", self.shape(self.edge), "in")
        return x, d, Operand("y", (1, self.results + self.inputs), "out")

    def planes(self, x: Array) -> Array:
        """A view with the axes images, channels, row, column."""
        return x.transpose(0, 3, 1, 2) if self.layout == "nhwc" else x

    def parts(self, y: Array) -> tuple[Array, Array | None]:
        """Views of the result and, of a step, of the gradient, as images, channels, row, column."""
        result = y[0, : self.results].reshape(self.shape(self.edge))
        if self.phase == "forward":
            return self.planes(result), None
        return self.planes(result), self.planes(y[0, self.results :].reshape(self.shape(self.size)))

    def windows(self, x: Array) -> list[Array]:
        """For each place in a window the view of its elements of all windows."""
        last = STRIDE * (self.edge - 1) + 1
        places = [(r, c) for r in range(self.window) for c in range(self.window)]
        return [x[..., r : r + last : STRIDE, c : c + last : STRIDE] for r, c in places]

    def _scattered(self, d: Array, x: Array) -> Array:
        """The gradient of x, float64, given that of y."""
        import numpy as np

        found = np.zeros(x.shape)
        views = self.windows(x)
        if self.pool == "max":
            at = np.argmax(np.stack(views), axis=0)
            top = np.max(np.stack(views), axis=0)
            d = np.where(top > 0, d, 0) if self.relu == "yes" else d
        for i, view in enumerate(self.windows(found)):
            view += d / self.window**2 if self.pool == "avg" else np.where(at == i, d, 0)
        return found

    def _answer(self, x: Arrays, d: Array | None) -> Array:
        import numpy as np

        image = self.planes(x["x"])
        views = self.windows(image)
        made = np.max(views, axis=0) if self.pool == "max" else np.mean(views, axis=0, dtype="f8")
        y = np.empty(self.operands()[-1].shape)
        result, gradient = self.parts(y)
        result[...] = np.maximum(made, 0) if self.relu == "yes" else made
        if gradient is not None and d is not None:
            gradient[...] = self._scattered(d, image)
        return y

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"y": self._answer(x, self.planes(x["d"]) if "d" in x else None)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """A maximum is exact; averages and gradients are sums of at most nine and four terms."""
        import numpy as np

        if self.pool == "avg":
            sizes = {name: np.abs(array) for name, array in x.items()}
            return {"y": 8 * u * self.reference(sizes)["y"]}
        found = 8 * u * self._answer(x, np.abs(self.planes(x["d"])) if "d" in x else None)
        found[0, : self.results] = 0
        return {"y": found}
