"""Stages of convolutions, which a CUDA kernel computes as a part of a row's call, as problems of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.nvcc import Geometry
from kernels.ops.conv import columns, fft, frames, winograd_cuda
from kernels.ops.conv.cook_toom import TAPS, cook_toom, points
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.winograd import ALGORITHMS
from kernels.ops.spmm.problem import Spmm
from kernels.ops.spmm.variants import WEIGHTS
from kernels.problem import Operand, axis

if TYPE_CHECKING:
    from kernels.problem import Array, Arrays

SPARE = 32  # roundings of a sum of as many terms as a tile's edge squared, and what comes to it
SIZES = (
    {"n": 1, "c": 1, "h": 3, "w": 3, "k": 1},
    {"n": 2, "c": 3, "h": 9, "w": 7, "k": 5, "pad": 1},
    {"n": 3, "c": 2, "h": 22, "w": 13, "k": 4, "pad_top": 2, "pad_right": 1},
)
WIDE = ({"n": 2, "c": 3, "h": 9, "w": 11, "k": 2, "r": 5, "s": 4, "pad": 2, "stride": 2, "dilation": 2},)


@dataclass(frozen=True)
class Part(Conv):
    """`stage` is the name of a kernel, `operand` the letter of what it frames."""

    stage: str = axis("a kernel", "")
    operand: str = axis("what it frames", "x")

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        (read, _) = self.operands()
        return {read.name: rng.standard_normal(read.shape).astype(np.float32)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """By what is added up, without signs: of what is only copied nothing."""
        sizes = self._made({name: np.abs(array) for name, array in x.items()}, size=True)
        return dict.fromkeys(want, SPARE * u * sizes)

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {self.operands()[1].name: self._made(x)}

    def _made(self, x: Arrays, size: bool = False) -> Array:
        raise NotImplementedError


class Columns(Part):
    """Of columns.cu."""

    def operands(self) -> tuple[Operand, ...]:
        image = Operand("x", (self.n * self.c, self.h, self.w), "in")
        made = (self.n * self.c, self.r * self.s, self.outputs_of_image)
        if self.stage == "columns_of":
            return image, Operand("columns", made, "out")
        return Operand("columns", made, "in"), Operand("dx", image.shape, "out")

    def _made(self, x: Arrays, size: bool = False) -> Array:
        of, back = (o.shape for o in self.operands())
        down, across = self.lines
        image, made = (of, back) if self.stage == "columns_of" else (back, of)
        given, found = x[self.operands()[0].name].astype(np.float64), np.zeros(back)
        for tap in range(self.r * self.s):
            for result in range(made[2]):
                row = down.at(result // across.outputs, tap // self.s)
                col = across.at(result % across.outputs, tap % self.s)
                if 0 <= row < image[1] and 0 <= col < image[2]:
                    if self.stage == "columns_of":
                        found[:, tap, result] = given[:, row, col]
                    else:
                        found[:, row, col] += given[:, tap, result]
        return found * (not size or self.stage == "columns_back")


class Frames(Part):
    """Of frames.cu."""

    def operands(self) -> tuple[Operand, ...]:
        count, rows, cols = frames.planes(self, self.operand)
        planes, framed = (count, rows, cols), (count, *fft.lengths(self))
        if self.stage == "frames_of":
            return Operand("planes", planes, "in"), Operand("frames", framed, "out")
        return Operand("frames", framed, "in"), Operand("planes", planes, "out")

    def _made(self, x: Arrays, size: bool = False) -> Array:
        step = self.dilation if self.operand == "w" else 1
        _, rows, cols = frames.planes(self, self.operand)
        if self.stage == "frames_of":
            found = np.zeros(self.operands()[1].shape)
            found[:, : rows * step : step, : cols * step : step] = x["planes"]
            return found * (not size)
        sign = 1 if self.operand == "x" else -1
        down, across = fft.lengths(self)
        at = np.arange(rows) * step + sign * self.pad_top, np.arange(cols) * step + sign * self.pad_left
        framed: Array = x["frames"].astype(np.float64)
        return framed[:, at[0][:, None] % down, at[1] % across] / (down * across)


class Tiles(Part):
    """Of winograd.cu."""

    @property
    def m(self) -> int:
        return int(self.stage.removeprefix("winograd").partition("_")[0])

    @property
    def kind(self) -> str:
        return self.stage.partition("_")[2]

    def operands(self) -> tuple[Operand, ...]:
        places, (down, across) = (self.m + TAPS - 1) ** 2, winograd_cuda.tiles(self, self.m)
        outputs = tuple(line.outputs for line in self.lines)
        image, result = (self.n, self.c, self.h, self.w), (self.n, self.k, *outputs)
        if self.direction == "dgrad":
            image, result = result, image
        plain = {"image": image, "gradient": result, "result": result}.get(self.kind, (self.k, self.c, TAPS, TAPS))
        turned = self.direction == "dgrad"
        filters = (places, self.c, self.k) if turned else (places, self.k, self.c)
        tiled = (places, plain[1], self.n, down, across) if not self.kind.endswith("filter") else filters
        first, second = NAMES[self.kind]
        shapes = (tiled, plain) if self.kind in ("result", "dfilter") else (plain, tiled)
        return Operand(first, shapes[0], "in"), Operand(second, shapes[1], "out")

    def _made(self, x: Arrays, size: bool = False) -> Array:
        matrices = cook_toom(points(*SIZES_OF[self.m]))
        a, g, bt = (np.array(rows, np.float64) for rows in (matrices.a, matrices.g, matrices.bt))
        if size:
            a, g, bt = np.abs(a), np.abs(g), np.abs(bt)
        given, into = x[self.operands()[0].name].astype(np.float64), self.operands()[1].shape
        if self.kind == "filter":
            turned = self.direction == "dgrad"
            taps = given[:, :, ::-1, ::-1] if turned else given
            made = np.einsum("ij,kcjl,ml->imkc", g, taps, g).reshape(-1, self.k, self.c)
            return made.transpose(0, 2, 1) if turned else made
        if self.kind == "dfilter":
            square = given.reshape(self.m + 2, self.m + 2, self.k, self.c)
            return np.einsum("ji,jlkc,lm->kcim", g, square, g)
        return self._tiled(given, into, a, bt)

    def _tiled(self, given: Array, into: tuple[int, ...], a: Array, bt: Array) -> Array:
        """Tile by tile."""
        m, (down, across) = self.m, winograd_cuda.tiles(self, self.m)
        edge = m + 2
        if self.kind == "result":
            n, k, h, w = into
            square = given.reshape(edge, edge, k, n, down, across)
            whole = np.einsum("ji,jlknyx,lq->nkyixq", a, square, a).reshape(n, k, down * m, across * m)
            return whole[:, :, :h, :w]
        pads = (0, 0)
        if self.kind == "image":
            pads = (self.pad_top, self.pad_left)
            pads = (TAPS - 1 - pads[0], TAPS - 1 - pads[1]) if self.direction == "dgrad" else pads
        n, k, h, w = given.shape
        room = np.zeros((n, k, pads[0] + h + edge + down * m, pads[1] + w + edge + across * m))
        room[:, :, pads[0] : pads[0] + h, pads[1] : pads[1] + w] = given
        size, by = (edge, bt) if self.kind == "image" else (m, a)
        found = np.zeros((edge, edge, k, n, down, across))
        for y in range(down):
            for z in range(across):
                tile = room[:, :, y * m : y * m + size, z * m : z * m + size]
                found[..., y, z] = np.einsum("ij,nkjl,ql->iqkn", by, tile, by)
        return found.reshape(into)


NAMES = {"image": "xv", "gradient": ("dy", "v"), "result": "vy", "filter": "wu", "dfilter": ("u", "dw")}
SIZES_OF = {x[1].m: x[1].sizes for x in reversed(ALGORITHMS)}  # of its points, by the outputs of a tile


@dataclass(frozen=True)
class Pruned(Spmm):
    """Its weights are what the problem says they are."""

    def operands(self) -> tuple[Operand, ...]:
        b, c = super().operands()
        values, columns, pointers = self.weights()
        return (
            b,
            Operand("values", values.shape, "in"),
            Operand("columns", columns.shape, "in", "int32", below=self.k),
            Operand("pointers", pointers.shape, "in", "int32", below=len(values) + 1),
            c,
        )

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        b = rng.standard_normal((self.k, self.n)).astype(np.float32)
        return {"b": b, **dict(zip(WEIGHTS, self.weights(), strict=True))}


def of(name: str) -> tuple[Part, ...]:
    """The three problems of a kernel's row."""
    if name in columns.KERNELS:
        return tuple(Columns(**size, stage=name) for size in (*SIZES[:2], *WIDE))
    if name in frames.KERNELS:
        sizes: tuple[dict[str, Any], ...] = (*SIZES[:2], {**WIDE[0], "stride": 1})
        return tuple(Frames(**size, stage=name, operand=x) for size, x in zip(sizes, "xyw", strict=True))
    direction = {"gradient": "wgrad", "dfilter": "wgrad", "filter": "dgrad"}.get(name.partition("_")[2], "forward")
    return tuple(Tiles(**size, stage=name, direction=direction) for size in SIZES)


def launches(problem: Part, name: str) -> tuple[Geometry, ...]:
    """Of the kernel alone."""
    first, second = (x.name for x in problem.operands())
    places = first, second
    if isinstance(problem, Columns):
        return (columns.geometry(problem, name, problem.n, places),)
    if isinstance(problem, Frames):
        return (frames.geometry(problem, name, problem.operand, places),)
    return (winograd_cuda.geometry(problem, name, places),)
