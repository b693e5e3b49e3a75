"""Convolution of images by a filter bank, and its two gradients."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from kernels import bounds
from kernels.directions import direction
from kernels.errors import UsageError
from kernels.ops.conv import truth
from kernels.ops.conv.line import Line
from kernels.problem import GRADED, Evidence, Excerpt, Operand, Problem, Work, axis, once

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

BLOCK = 16  # channels side by side in layout nchw16c
NONZERO = 0.01  # share of a sparse probe's elements that are not idle
# Largest honest errors of 22 problems in shares of u √(x² ⋆ w²): direct sums and im2col 95 forward and dgrad, FFT 147;
# products of TF32 make 14 200 and more.
DENSE = 512.0
SPARSE = 16.0  # in shares of u |x| ⋆ |w|, or of u Σ ‖x‖ ‖w‖ where errors spread
LOPSIDED = 128.0  # … of terms of one sign: 82
LOST = 64  # terms of a sum of them, each of which may lose so much of u that is not made up for: 802 816 lose 5 500 u
LONG = 3136  # terms from which on the sum of a filter's gradient shows its length: 1 160 u of 200 704 were seen
DEAR = 10e9  # FLOPs: above it a float64 reference costs more than the measurement
FEW = 16  # channels of an output: fewer are not projected
ENTRIES = 8  # parts of a large answer that are compared in full


@dataclass(frozen=True)
class Conv(Problem):
    """y = x ⋆ w, cross-correlation as in all frameworks: x N×C×H×W, w K×C/groups×R×S, y N×K×OH×OW, zeros around x.

    Pass forward: y from x and w. dgrad: dx from dy and w. wgrad: dw from x and dy. Layout nhwc has the channels last,
    of the filter too (K×R×S×C); nchw16c has blocks of 16 channels last (N×C/16×H×W×16, the filter
    K/16×C/16×R×S×16c×16k).

    FLOPs are nominal: 2·N·K·OH·OW·C/groups·R·S in each pass, multiplications by the zeros around x among them. What a
    NaN or an infinity makes of an image differs between honest algorithms: those that transform spread it.
    """

    op: ClassVar[str] = "conv"
    probes: ClassVar[tuple[str, ...]] = ("dense", "sparse")

    n: int = axis("images of the batch", low=1)
    c: int = axis("channels of an image", low=1)
    h: int = axis("rows of an image", low=1)
    w: int = axis("columns of an image", low=1)
    k: int = axis("filters, the channels of the result", low=1)
    r: int = axis("rows of a filter", 3, low=1)
    s: int = axis("columns of a filter", 3, low=1)
    stride: int = axis("rows and columns from one place of the filter to the next", 1, low=1)
    pad_top: int = axis("rows of zeros above an image", 0, low=0)
    pad_left: int = axis("columns of zeros left of an image", 0, low=0)
    pad_bottom: int = axis("rows of zeros below an image", 0, low=0)
    pad_right: int = axis("columns of zeros right of an image", 0, low=0)
    dilation: int = axis("rows and columns from one tap of a filter to the next", 1, low=1)
    groups: int = axis("parts of the channels, each with filters of its own", 1, low=1)
    direction: str = direction("which of the three passes", "forward", "dgrad", "wgrad")
    layout: str = axis("order of the axes", "nchw", choices=("nchw", "nhwc", "nchw16c"), said="word")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("c", "k"):
            if getattr(self, name) % self.groups:
                raise UsageError(f"--groups {self.groups}: --{name} {getattr(self, name)} is not a multiple of it")
            if self.layout == "nchw16c" and (getattr(self, name) % BLOCK or self.groups > 1):
                raise UsageError(f"--layout nchw16c: take one group, and a multiple of {BLOCK} for --c and --k")
        for name, line, size in zip("rs", self.lines, (self.h, self.w), strict=True):
            if line.outputs < 1:
                raise UsageError(f"--{name} {line.taps}: longer than an image of {size} with its padding")

    @property
    def lines(self) -> tuple[Line, Line]:
        """Down, and across."""
        return (
            Line(self.h, self.r, self.stride, self.pad_top, self.pad_bottom, self.dilation),
            Line(self.w, self.s, self.stride, self.pad_left, self.pad_right, self.dilation),
        )

    @property
    def outputs_of_image(self) -> int:
        """OH·OW."""
        down, across = self.lines
        return down.outputs * across.outputs

    @property
    def flops(self) -> float:
        return 2.0 * self.n * self.k * self.outputs_of_image * self.c // self.groups * self.r * self.s

    @property
    def inside(self) -> float:
        """FLOPs of the taps that lie inside the image: what sums term by term need."""
        down, across = self.lines
        return 2.0 * self.n * self.k * (self.c // self.groups) * down.pairs * across.pairs

    @property
    def bytes(self) -> float:
        return float(self.footprint)

    def direct_work(self) -> Work:
        """What a sum term by term executes."""
        return Work(self.inside, self.bytes)

    @property
    def summed(self) -> int:
        per_group = {"forward": self.c, "dgrad": self.k}
        if self.direction == "wgrad":
            return self.n * self.outputs_of_image
        return per_group[self.direction] // self.groups * self.r * self.s

    @property
    def of_planes(self) -> Conv:
        """The problem with one number for each plane of images and filters."""
        return Conv(self.n, self.c, 1, 1, self.k, 1, 1, groups=self.groups, direction=self.direction)

    @property
    def graded(self) -> dict[str, int]:
        """Images; of a filter's gradient, which is summed over them, the filters."""
        if self.direction != "wgrad":
            return {self.operands()[0].name: 0}
        return {"nchw": {"dy": 1}, "nhwc": {"dy": 3}}.get(self.layout, {})

    def operands(self) -> tuple[Operand, ...]:
        down, across = self.lines
        x, w, y = (
            self._images(self.c, self.h, self.w),
            self._filters(),
            self._images(self.k, down.outputs, across.outputs),
        )
        if self.direction == "forward":
            return Operand("x", x, "in"), Operand("w", w, "in"), Operand("y", y, "out")
        if self.direction == "dgrad":
            return Operand("dy", y, "in"), Operand("w", w, "in"), Operand("dx", x, "out")
        return Operand("x", x, "in"), Operand("dy", y, "in"), Operand("dw", w, "out")

    def _images(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        if self.layout == "nhwc":
            return self.n, height, width, channels
        if self.layout == "nchw16c":
            return self.n, channels // BLOCK, height, width, BLOCK
        return self.n, channels, height, width

    def _filters(self) -> tuple[int, ...]:
        c = self.c // self.groups
        if self.layout == "nhwc":
            return self.k, self.r, self.s, c
        if self.layout == "nchw16c":
            return self.k // BLOCK, c // BLOCK, self.r, self.s, BLOCK, BLOCK
        return self.k, c, self.r, self.s

    def plain(self, array: Array) -> Array:
        """An operand with the axes images or filters, channels, row, column; a view where that is possible."""
        if self.layout == "nhwc":
            return array.transpose(0, 3, 1, 2)
        if self.layout == "nchw":
            return array
        if array.ndim == 6:
            k, c, r, s = array.shape[:4]
            return array.transpose(0, 5, 1, 4, 2, 3).reshape(k * BLOCK, c * BLOCK, r, s)
        n, c, h, w = array.shape[:4]
        return array.transpose(0, 1, 4, 2, 3).reshape(n, c * BLOCK, h, w)

    def laid(self, array: Array, name: str) -> Array:
        """The reverse: a plain operand of that name in the layout."""
        if self.layout == "nhwc":
            return array.transpose(0, 2, 3, 1)
        if self.layout == "nchw":
            return array
        first, second, height, width = array.shape
        if name in ("w", "dw"):
            blocks = array.reshape(first // BLOCK, BLOCK, second // BLOCK, BLOCK, height, width)
            return blocks.transpose(0, 2, 4, 5, 3, 1)
        return array.reshape(first, second // BLOCK, BLOCK, height, width).transpose(0, 1, 3, 4, 2)

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Sparse: few terms a sum, so that nothing averages a loss of precision away. The others are small, not zero: a
        kernel must not know the probe by its zeros."""
        import numpy as np

        x = super().fill(rng, probe)
        if probe == "sparse":
            first = next(iter(x))
            idle = rng.random(x[first].shape) >= NONZERO
            x[first] = np.where(idle, x[first] * np.float32(bounds.IDLE**2), x[first])
        return x

    def _inputs(self, x: Arrays) -> tuple[Array, Array]:
        """Both, plain."""
        first, second = (self.plain(x[operand.name]) for operand in self.operands()[:2])
        return first, second

    def reference(self, x: Arrays) -> dict[str, Array]:
        import numpy as np

        name = self.outputs[0].name
        first, second = (array.astype(np.float64) for array in self._inputs(x))
        return {name: self.laid(truth.output(self, first, second), name)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Of dense data of mean zero: errors of single terms average out like the terms."""
        name = self.outputs[0].name
        return {name: self.laid(self.allowed(x, "dense") * u, name)}

    def allowed(self, x: Arrays, probe: str) -> Array:
        """What an answer may be off by in units of u, plain."""
        return self.of_sums(probe, *self._inputs(x))

    def of_sums(self, probe: str, first: Array, second: Array) -> Array:
        """Errors of few terms, and of terms of one sign, do not average out: there the sum without signs counts."""
        if probe == "sparse":
            return SPARSE * truth.absolute(self, first, second)
        if probe in bounds.LOPSIDED:
            return max(LOPSIDED, self.summed / LOST) * truth.absolute(self, first, second)
        longer = max(1.0, (self.summed / LONG) ** 0.5) if self.direction == "wgrad" else 1.0
        return DENSE * longer * truth.quadratic(self, first, second)

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        if self.flops > DEAR and self.groups == 1 and self._projected_channels >= FEW:
            from kernels.ops.conv import projected

            return projected.compare(self, x, got, u, probe)
        return [self.in_full(x, got, u, probe)]

    def in_full(self, x: Arrays, got: Arrays, u: float, probe: str) -> Evidence:
        """Element by element."""
        import numpy as np

        name = self.outputs[0].name
        want = once(x, "reference", lambda: self.reference(x))[name]
        unit = once(x, (type(self), probe), lambda: self.laid(self.allowed(x, probe), name))
        error = np.subtract(got[name], want)
        return Evidence(name, probe, np.abs(error, out=error), u * unit)

    @property
    def _projected_channels(self) -> int:
        return self.k if self.direction == "forward" else self.c

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        from kernels.ops.conv import excerpts

        return excerpts.excerpt(self, rng)


class Spread(Conv):
    """The same problem for kernels that transform whole images or tiles: an element's error is as large as the tile's
    others make it, so that no bound of the element's own terms holds where some are far larger."""

    def of_sums(self, probe: str, first: Array, second: Array) -> Array:
        import numpy as np

        if probe not in ("sparse", GRADED):
            return super().of_sums(probe, first, second)
        plain = self.plain(np.empty(self.outputs[0].shape, np.float32)).shape
        return np.broadcast_to(SPARSE * truth.planes(self, first, second), plain)


def spread(problem: Conv) -> Conv:
    """The problem by whose bounds a kernel is judged that transforms."""
    return Spread(**{x.name: getattr(problem, x.name) for x in fields(problem)})
