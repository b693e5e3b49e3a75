"""Winograd's convolutions in C around OpenBLAS's sgemm: 3 × 3 filters at stride 1, all three passes."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernels import build, maths
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs import openblas
from kernels.libs.openblas import OPENBLAS
from kernels.native import launch, structure
from kernels.ops.conv.cook_toom import TAPS, Matrix, cook_toom, points
from kernels.ops.conv.dgrad_as_forward import Reading
from kernels.ops.conv.layouts import BLOCK
from kernels.ops.conv.problem import Conv, spread
from kernels.problem import Array, Work
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("winograd.c")
LANES = 16  # most channels of a vector; leading dimensions are multiples of it
NEAR = 5 << 18  # bytes of V and M together, so that they and the part of U in use stay in a second-level cache …
THIN, SHARE = 24, 5  # … if these are at least THIN tiles and the mean of the channels / SHARE. Else a block has
COLUMNS = 128  # tiles at least, and as many as that mean, or U is read more often than V and M
APART = 16  # floats between matrices, which a power of two apart would compete for the same cache sets


# `images` and `filters` of winograd.c
Images = structure("int64: channels height width image row pixel channel block")
Filters = structure("int64: rows columns row row_block column column_block tap")


class Argument(ctypes.Structure):
    """C struct `winograd` of winograd.c."""

    _fields_ = (
        *((name, maths.POINTER) for name in ("first", "second", "result", "sgemm", "v", "m", "u", "strip", "kept")),
        ("source", Images),
        ("target", Images),
        ("of", Filters),
        *((name, maths.INT64) for name in ("count", "top", "left", "down", "across", "rows")),
        *((name, maths.INT64) for name in ("ld_from", "ld_to", "ld_u", "step_v", "step_m", "step_u", "serial")),
        ("wide", ctypes.c_int32),
        ("turned", ctypes.c_int32),
    )


@dataclass(frozen=True)
class Tiling(Reading):
    """A convolution pass in tiles of F(m, 3)."""

    m: int

    @property
    def columns(self) -> int:
        """Columns of U, the filters' transforms: filters in the forward pass, else channels."""
        return self.problem.k if self.problem.direction == "forward" else self.problem.c

    @property
    def down(self) -> int:
        """Rows of tiles of an image."""
        return -(-self.sizes[1][0] // self.m)

    @property
    def across(self) -> int:
        return -(-self.sizes[1][1] // self.m)

    @property
    def products(self) -> int:
        return (self.m + TAPS - 1) ** 2

    @property
    def rows(self) -> int:
        """Rows of tiles in a block, chosen so that all blocks have about the same size."""
        total, mean = self.problem.n * self.down, (self.read + self.written) // 2
        rows = NEAR // (4 * self.products * (padded(self.read) + padded(self.written)) * self.across)
        if rows * self.across < max(THIN, mean // SHARE):
            rows = -(-max(COLUMNS, mean) // self.across)
        return -(-total // -(-total // rows))

    @property
    def floats(self) -> dict[str, int]:
        """Floats of each part of the workspace, by name."""
        tiles = self.rows * self.across
        span = (self.across * self.m + TAPS - 1 + LANES) * LANES
        return {
            "v": self.products * (tiles * padded(self.read) + APART),
            "m": self.products * (tiles * padded(self.written) + APART),
            "u": self.products * (self.problem.c * self.problem.k // self.columns * padded(self.columns) + APART),
            "strip": max((self.m + TAPS - 1) * span, BLOCK * TAPS * TAPS * padded(self.columns)),
            "kept": LANES,
        }


def padded(channels: int) -> int:
    return -(-channels // LANES) * LANES


def images(layout: str, channels: int, height: int, width: int) -> ctypes.Structure:
    """Return the C struct of the images' strides in a layout."""
    pixels = height * width
    row, pixel, channel, block = {
        "nchw": (width, 1, pixels, BLOCK * pixels),
        "nhwc": (width * channels, channels, 1, BLOCK),
        "nchw16c": (width * BLOCK, BLOCK, 1, BLOCK * pixels),
    }[layout]
    return Images(channels, height, width, channels * pixels, row, pixel, channel, block)


def filters(problem: Conv) -> ctypes.Structure:
    """Return the C struct of the filters' strides, by rows and columns of the matrices U."""
    c, taps = problem.c, TAPS * TAPS
    of_filter, of_channel, tap = {
        "nchw": ((c * taps, BLOCK * c * taps), (taps, BLOCK * taps), 1),
        "nhwc": ((c * taps, BLOCK * c * taps), (1, BLOCK), c),
        "nchw16c": ((1, BLOCK * c * taps), (BLOCK, BLOCK * BLOCK * taps), BLOCK * BLOCK),
    }[problem.layout]
    if problem.direction == "forward":
        return Filters(c, problem.k, *of_channel, *of_filter, tap)
    return Filters(problem.k, c, *of_filter, *of_channel, tap)


@dataclass(frozen=True)
class Winograd:
    """Winograd's algorithm F(m, 3) with the interpolation points 0, ± `sizes` and infinity."""

    sizes: tuple[str, ...]

    @property
    def m(self) -> int:
        return 2 * len(self.sizes)

    def flags(self) -> tuple[str, ...]:
        """Return the compiler flags with the matrices, each number rounded to single precision."""
        matrices = cook_toom(points(*self.sizes))
        named = {"BT": matrices.bt, "G": matrices.g, "OUT": matrices.a}
        return (*maths.flags(), f"-DM={self.m}", *(f"-D{name}={_text(matrix)}" for name, matrix in named.items()))

    def argument(self, problem: Conv) -> Argument:
        """Return the argument of the C functions, with its addresses unset."""
        tiling = Tiling(problem, self.m)
        floats = tiling.floats
        size, result_size = tiling.sizes
        top, left = tiling.before
        return Argument(
            source=images(problem.layout, tiling.read, *size),
            target=images(problem.layout, tiling.written, *result_size),
            of=filters(problem),
            count=problem.n,
            top=top,
            left=left,
            down=tiling.down,
            across=tiling.across,
            rows=tiling.rows,
            ld_from=padded(tiling.read),
            ld_to=padded(tiling.written),
            ld_u=padded(tiling.columns),
            **{f"step_{name}": floats[name] // tiling.products for name in "vmu"},
            turned=tiling.reverse,
        )

    def prepare(self, problem: Conv, device: Any, setting: Setting, *, kept: bool = False) -> Bind:
        if kept and "w" in setting.cold:
            raise Unavailable("it caches the filter's transform and does not read w: remove w from --cold")
        name = "kept" if kept else "filters" if problem.direction == "wgrad" else "images"
        return self._bind(problem, device, setting, name)

    def _bind(self, problem: Conv, device: Any, setting: Setting, name: str) -> Bind:
        """Return a bind of the function winograd_NAME of winograd.c."""
        maths.alone(setting)
        blas = openblas.load("numpy")
        blas.set_threads(1)
        argument = self.argument(problem)
        argument.sgemm, argument.wide = blas.sgemm, blas.wide
        floats = Tiling(problem, self.m).floats
        block = device.allocate(4 * sum(floats.values()))
        block[:] = 0  # padding channels stay zero
        place = block.ctypes.data
        for each, count in floats.items():
            setattr(argument, each, place)
            place += 4 * count
        serial = itertools.count(1)
        function = build.address(SOURCE, f"winograd_{name}", self.flags())

        def bind(buffers: Sequence[Array]) -> Launch:
            copy = Argument.from_buffer_copy(argument)
            copy.serial = next(serial)
            names = ("first", "second", "result")
            return launch(function, copy, names, buffers, workspace=block.nbytes, keep=(block,))

        return bind

    def work(self, problem: Conv, *, kept: bool = False) -> Work:
        """Return the work of products and transforms, without the filters' transform if `kept`.

        An image or output tile takes LINE operations for each of its lines. V and M stay in the cache, uncounted.
        """
        tiling = Tiling(problem, self.m)
        a, tiles = self.m + TAPS - 1, problem.n * tiling.down * tiling.across
        into, back = LINE[self.m]
        filters = 5.0 * a * (a + TAPS) * problem.k * problem.c
        images = 2.0 * a * into * tiles * tiling.read + 1.0 * (a + self.m) * back * tiles * tiling.written
        products = 2.0 * a * a * tiles * problem.c * problem.k
        return Work(images + products + (0.0 if kept else filters), problem.bytes)


# By m: operations that transform one line of an image tile, and of an output tile.
LINE = {2: (4, 4), 4: (19, 13), 6: (34, 30)}


def _text(matrix: Matrix) -> str:
    return "{" + ",".join(f"{float(x).hex()}f" for row in matrix for x in row) + "}"


def accepts(problem: Conv, *, kept: bool = False) -> str | None:
    if (problem.r, problem.s) != (TAPS, TAPS):
        return "requires 3x3 filters: --r 3 --s 3"
    if problem.stride != 1 or problem.dilation != 1:
        return "does not support stride or dilation: --stride 1 --dilation 1"
    if problem.groups != 1:
        return "does not support groups: --groups 1"
    if kept and problem.direction == "wgrad":
        return "wgrad has no filter to cache: --direction forward or dgrad"
    return None


def called(problem: Conv) -> str:
    """Return the column-major BLAS call of the products, one for each element of a tile."""
    form = "TN = sgemm(N,T)" if problem.direction == "wgrad" else "NN = sgemm(N,N)"
    return f"{form}, one a place of a tile"


def _row(name: str, algorithm: Winograd, growth: float, roles: tuple[str, ...], *, kept: bool) -> Variant[Conv]:
    return row(
        replace(OPENBLAS, name="suite"),
        f"{name}-kept" if kept else name,
        partial(algorithm.prepare, kept=kept),
        growth=growth,
        accepts=partial(accepts, kept=kept),
        work=partial(algorithm.work, kept=kept),
        constant=("w",) if kept else (),
        blas=called,
        judged=spread,
        roles=() if kept else roles,
    )


# Growth: largest errors, in shares of a direct sum's bounds (kernels/ops/conv/truth.py), on 320 problems of 1 to 512
# channels and 1 to 60 rows in three passes, were 0.3, 1.9, 4.2 and 7.4 on sparse data, and 0.2, 0.9, 3.0 and 4.3 on
# dense data. At least twice the larger error is allowed.
ALGORITHMS: tuple[tuple[str, Winograd, float, tuple[str, ...]], ...] = (
    ("winograd-2x3", Winograd(("1",)), 1.0, ("winograd",)),
    ("winograd-4x3", Winograd(("5/8", "3/2")), 4.0, (DEFAULT, "winograd")),
    ("winograd-4x3-textbook", Winograd(("1", "2")), 9.0, ()),
    ("winograd-6x3", Winograd(("1", "2", "1/2")), 15.0, ("winograd",)),  # of all triples of eighths the most precise
)
ROWS: tuple[Variant[Conv], ...] = tuple(_row(*x, kept=kept) for kept in (False, True) for x in ALGORITHMS)
