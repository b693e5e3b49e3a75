"""Sizes of a convolution: its axes, its operands and their layouts, its work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from kernels.errors import UsageError
from kernels.ops.conv import layouts
from kernels.ops.conv.taps import Line
from kernels.problem import Array, Arrays, Operand, Problem, Work, axis, direction

T = TypeVar("T")
PASSES = ("forward", "dgrad", "wgrad")
SIDES = ("pad_top", "pad_left", "pad_bottom", "pad_right")
# Axes by the words that frameworks and texts use, with an s or without.
CALLED = {
    "batch": ("n",),
    "image": ("h", "w"),
    "height": ("h",),
    "width": ("w",),
    "size": ("h", "w"),
    "channel": ("c",),
    "in_channel": ("c",),
    "out_channel": ("k",),
    "filter": ("r", "s"),
    "kernel": ("r", "s"),
    "kernel_size": ("r", "s"),
    "filter_size": ("r", "s"),
    "padding": ("pad",),
    "pass": ("direction",),
}


@dataclass(frozen=True)
class Shape(Problem):
    """The sizes of a convolution, without its arithmetic; kernels/ops/conv/problem.py defines the passes."""

    op: ClassVar[str] = "conv"
    by_executed: ClassVar[bool] = True
    planes: ClassVar[tuple[str, ...]] = ()  # probes whose errors are bounded by norms of planes, not element by element

    called: ClassVar[Mapping[str, tuple[str, ...]]] = CALLED

    n: int = axis("images of the batch", low=1)
    c: int = axis("input channels", low=1)
    h: int = axis("image height", low=1)
    w: int = axis("image width", low=1)
    k: int = axis("filters (output channels)", low=1)
    r: int = axis("filter height", 3, low=1)
    s: int = axis("filter width", 3, low=1)
    stride: int = axis("stride of the filter, vertical and horizontal", 1, low=1)
    pad: int = axis("zero padding on all four sides; --pad-SIDE overrides one side", 0, low=0)
    pad_top: int = axis("zero padding above an image", 0, low=0)
    pad_left: int = axis("zero padding left of an image", 0, low=0)
    pad_bottom: int = axis("zero padding below an image", 0, low=0)
    pad_right: int = axis("zero padding right of an image", 0, low=0)
    dilation: int = axis("distance between filter taps, vertical and horizontal", 1, low=1)
    groups: int = axis("groups of channels, each with its own filters", 1, low=1)
    direction: str = direction("pass", PASSES[0], *PASSES)
    layout: str = axis("memory layout", "nchw", choices=layouts.LAYOUTS, shown="word")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._place_padding()
        for name in ("c", "k"):
            if getattr(self, name) % self.groups:
                raise UsageError(f"--groups {self.groups}: must divide --{name} {getattr(self, name)}")
            if self.layout == "nchw16c" and (getattr(self, name) % layouts.BLOCK or self.groups > 1):
                raise UsageError(f"--layout nchw16c: needs --groups 1, --c and --k multiples of {layouts.BLOCK}")
        for name, line, size in zip("rs", self.lines, (self.h, self.w), strict=True):
            if line.outputs < 1:
                apart = f" --dilation {self.dilation}" if self.dilation > 1 else ""
                raise UsageError(f"--{name} {line.taps}{apart}: exceeds the image size {size} plus padding")

    def _place_padding(self) -> None:
        """Set each side's padding, by default `pad`; `pad` becomes 0 unless all sides are alike."""
        sides = {name: getattr(self, name) or self.pad for name in SIDES}
        for name, zeros in sides.items():
            object.__setattr__(self, name, zeros)
        object.__setattr__(self, "pad", self.pad_top if len({*sides.values()}) == 1 else 0)

    @property
    def name(self) -> str:
        """The problem's name, with one padding if all sides are alike."""
        words = super().name.split("/")
        return "/".join(word for word in words if not (self.pad and word.partition(":")[0] in SIDES))

    @property
    def descriptor(self) -> str:
        return _benchdnn(self.direction, self.n, (self.c, self.k), self.groups, self.lines)

    @property
    def lines(self) -> tuple[Line, Line]:
        """The vertical and the horizontal axis, each with its taps, stride, padding and dilation."""
        return (
            Line(self.h, self.r, self.stride, self.pad_top, self.pad_bottom, self.dilation),
            Line(self.w, self.s, self.stride, self.pad_left, self.pad_right, self.dilation),
        )

    @property
    def outputs_of_image(self) -> int:
        """Outputs of one image and filter, OH·OW."""
        down, across = self.lines
        return down.outputs * across.outputs

    @property
    def flops(self) -> float:
        return 2.0 * self.n * self.k * self.outputs_of_image * self.c // self.groups * self.r * self.s

    @property
    def inside(self) -> float:
        """FLOPs of taps that lie inside the image, which direct sums need."""
        down, across = self.lines
        return 2.0 * self.n * self.k * (self.c // self.groups) * down.pairs * across.pairs

    def direct_work(self) -> Work:
        """Return the work of direct sums, which skip taps in the padding."""
        return Work(self.inside, self.bytes)

    @property
    def summed(self) -> int:
        per_group = {"forward": self.c, "dgrad": self.k}
        if self.direction == "wgrad":
            return self.n * self.outputs_of_image
        return per_group[self.direction] // self.groups * self.r * self.s

    @property
    def of_planes(self) -> Shape:
        """The problem with one number for each plane of images and filters."""
        return Shape(self.n, self.c, 1, 1, self.k, 1, 1, groups=self.groups, direction=self.direction)

    @property
    def graded(self) -> dict[str, int]:
        """Images of the first input; in wgrad, which sums over images, the filters of dy (not in nchw16c)."""
        if self.direction != "wgrad":
            return {self.operands()[0].name: 0}
        return {"nchw": {"dy": 1}, "nhwc": {"dy": 3}}.get(self.layout, {})

    def operands(self) -> tuple[Operand, ...]:
        down, across = self.lines
        x = layouts.images(self.layout, self.n, self.c, self.h, self.w)
        w = layouts.filters(self.layout, self.k, self.c // self.groups, self.r, self.s)
        y = layouts.images(self.layout, self.n, self.k, down.outputs, across.outputs)
        if self.direction == "forward":
            return Operand("x", x, "in"), Operand("w", w, "in"), Operand("y", y, "out")
        if self.direction == "dgrad":
            return Operand("dy", y, "in"), Operand("w", w, "in"), Operand("dx", x, "out")
        return Operand("x", x, "in"), Operand("dy", y, "in"), Operand("dw", w, "out")

    @property
    def letters(self) -> list[str]:
        """The last letters of the operands' names, the same in all passes: x, w, y."""
        return [operand.name[-1] for operand in self.operands()]

    def by_letter(self, values: Sequence[T]) -> dict[str, T]:
        """Return the values, given in the operands' order, by the last letter of the operand's name."""
        return dict(zip(self.letters, values, strict=True))

    def plain(self, array: Array) -> Array:
        """Return an operand with plain axes (image or filter, channel, row, column), a view if possible."""
        return layouts.plain(self.layout, array)

    def laid(self, array: Array, name: str) -> Array:
        """Return the operand `name`, given with plain axes, in the problem's layout."""
        return layouts.laid(self.layout, array, of_filters=name in ("w", "dw"))

    def inputs(self, x: Arrays) -> tuple[Array, Array]:
        """Return both inputs with plain axes (image or filter, channel, row, column)."""
        first, second = (self.plain(x[operand.name]) for operand in self.operands()[:2])
        return first, second


BENCHDNN = {"forward": "FWD_D", "dgrad": "BWD_D", "wgrad": "BWD_W"}
USUAL = {"sh": 1, "sw": 1, "dh": 0, "dw": 0}


def _benchdnn(direction: str, images: int, channels: tuple[int, int], groups: int, lines: tuple[Line, Line]) -> str:
    """Return a convolution's pass, batch, sizes, outputs and leading padding in benchdnn's notation.

    Trailing padding follows from the outputs, dilation is counted from 0, and a width that is not given equals the
    height. The order of the axes is another option of benchdnn, at its default here. `channels`: of an image and of
    the result."""
    high, wide = (
        {"i": x.size, "o": x.outputs, "k": x.taps, "s": x.stride, "p": x.before, "d": x.dilation - 1} for x in lines
    )
    axes = {"h": high} if high == wide else {"h": high, "w": wide}

    def words(name: str) -> str:
        sizes = {f"{name}{axis}": values[name] for axis, values in axes.items()}
        return "".join(f"{word}{size}" for word, size in sizes.items() if size != USUAL.get(word))

    split = f"g{groups}" if groups > 1 else ""
    sizes = f"{split}mb{images}ic{channels[0]}{words('i')}oc{channels[1]}{words('o')}{words('k')}"
    return f"--dir={BENCHDNN[direction]} {sizes}{words('s')}{words('p')}{words('d')}"
