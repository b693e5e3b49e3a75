"""Convolution by Fourier transforms of small tiles, in three passes, for images of any size.

The workspace holds the spectra of all filters and of a few tiles. A tile of outputs reads an image tile that is wider
by the filter's size minus 1; in their circular correlation only the outputs that do not wrap around are right
(overlap-save). In dgrad, a convolution, the right outputs lie at the end of the tile. wgrad correlates image tiles with
tiles of dy without overlap, and sums over all tiles in the products."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log2
from pathlib import Path
from typing import Any, TypeAlias

from kernels import build
from kernels.launch import Bind
from kernels.libs.cblas import Blas
from kernels.maths import INT64, POINTER, alone
from kernels.native import structure
from kernels.ops.conv import cached_filter, fft
from kernels.ops.conv.dgrad_as_forward import Reading
from kernels.ops.conv.fft import Extent, Plan, Stages
from kernels.ops.conv.problem import Conv, spread
from kernels.problem import Array, Work
from kernels.provider import Provider
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("tiled.c")
NEAR, LEAST = 8 << 20, 32  # most bytes of a block's spectra; least tiles of a block, because products need rows

Block: TypeAlias = "tuple[int, int]"  # (first tile, number of tiles)
# `tiles` of tiled.c
Argument = structure("int64: channels height width down across step_down step_across rows columns top left size")


@dataclass(frozen=True)
class Tiling(Reading):
    """A convolution pass by tiles, transformed in frames of size × size."""

    size: int

    @property
    def steps(self) -> tuple[int, int]:
        """Rows and columns of outputs that a tile makes, at least one."""
        return max(1, self.size - self.spans[0] + 1), max(1, self.size - self.spans[1] + 1)

    @property
    def down(self) -> int:
        """Rows of tiles of an image."""
        return -(-self.sizes[1][0] // self.steps[0])

    @property
    def across(self) -> int:
        return -(-self.sizes[1][1] // self.steps[1])

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.problem.n * self.down * self.across

    @property
    def at_once(self) -> int:
        """Tiles of a block, chosen so that all blocks have about the same size."""
        most = max(LEAST, NEAR // (8 * self.extent(1).frequencies * (self.read + self.written)))
        return -(-self.tiles // -(-self.tiles // most))

    @property
    def blocks(self) -> list[Block]:
        return [(first, min(self.at_once, self.tiles - first)) for first in range(0, self.tiles, self.at_once)]

    def extent(self, tiles: int) -> Extent:
        """Return the frames of all filters and of the given number of tiles."""
        p = self.problem
        return Extent((self.size, self.size), {"x": tiles * p.c, "w": p.k * p.c, "y": tiles * p.k})


def spectra_bytes(tiling: Tiling) -> int:
    """Return the bytes of the spectra of all filters and of a block's image and output tiles."""
    extent = tiling.extent(tiling.at_once)
    return 8 * extent.frequencies * sum(extent.planes.values())


def work(problem: Conv, size: int, kept: bool = False) -> Work:
    """Return the work of the transforms (not the filters' if `kept`) and the products.

    Bytes include the filters' spectra once; a block's spectra may stay in cache.
    """
    tiling = Tiling(problem, size)
    extent, of_frame = tiling.extent(tiling.tiles), 2.5 * size**2 * log2(size**2)
    transforms = sum(count for name, count in extent.planes.items() if not (kept and name == "w")) * of_frame
    products = 8.0 * extent.frequencies * tiling.tiles * problem.c * problem.k
    return Work(transforms + products, problem.bytes + 8.0 * extent.frequencies * extent.planes["w"])


def accepts(problem: Conv, size: int) -> str | None:
    """Return why tiles of this size cannot or should not do a problem, or None if they may."""
    if why := fft.transformable(problem):
        return why
    for name, span in zip("rs", Tiling(problem, size).spans, strict=True):
        if span > size:
            most = (size - 1) // problem.dilation + 1
            return f"the filter exceeds the {size}×{size} tile: --{name} {most}"
    if spectra_bytes(Tiling(problem, size)) > fft.MOST:
        return f"its spectra take {spectra_bytes(Tiling(problem, size)) / 2**30:.1f} GiB: use a smaller --c or --k"
    return None


def plan(problem: Conv, device: Any, blas: Blas, library: fft.Library, size: int) -> Plan:
    """Allocate memory and plan the library's transforms, for the filter and the tiles of a block."""
    tiling = Tiling(problem, size)
    return fft.plan(problem, device, blas, library, extent=tiling.extent(tiling.at_once))


def call(planned: Plan, size: int, buffers: dict[str, Array]) -> Stages:
    """Return the stages in order: the filter's transform, then tiles; in wgrad tiles, then the inverse."""
    tiling = Tiling(planned.problem, size)
    tiles = {"tiles": _over(tiling, _of_blocks(planned, tiling, buffers))}
    if planned.problem.direction == "wgrad":
        return tiles | {"inverse w": fft.out(planned, "w", buffers["w"], (0, 0))}
    return {"transform w": fft.into(planned, "w", buffers["w"])} | tiles


def _over(tiling: Tiling, steps: list[Callable[[Block], None]]) -> Callable[[], None]:
    """Return a call that runs all steps of a block before those of the next block."""
    blocks = tiling.blocks

    def run() -> None:
        for block in blocks:
            for step in steps:
                step(block)

    return run


def _of_blocks(planned: Plan, tiling: Tiling, buffers: dict[str, Array]) -> list[Callable[[Block], None]]:
    """Return the steps of a block, in order."""
    *inputs, output = planned.problem.letters
    steps = [_into(planned, tiling, name, buffers[name]) for name in inputs if name != "w"]
    return [*steps, _multiply(planned), *([_out(planned, tiling, output, buffers[output])] if output != "w" else [])]


def _geometry(tiling: Tiling, array: Array) -> dict[str, int]:
    _, channels, height, width = array.shape
    step_down, step_across = tiling.steps
    sizes = {"channels": channels, "height": height, "width": width, "size": tiling.size}
    return sizes | {"down": tiling.down, "across": tiling.across, "step_down": step_down, "step_across": step_across}


def _frames(planned: Plan, name: str, channels: int, block: Block) -> list[tuple[int, int]]:
    """Return (first frame within the block, number of frames) for each batch transformed at once."""
    count, size = block[1] * channels, planned.blocks[name]
    return [(first, min(size, count - first)) for first in range(0, count, size)]


def _into(planned: Plan, tiling: Tiling, name: str, array: Array) -> Callable[[Block], None]:
    """Return a step that transforms a block's input tiles to spectra, ordered by frequency.

    In wgrad a tile of dy holds its outputs alone, without overlap."""
    alone = planned.problem.direction == "wgrad" and name == "y"
    (rows, columns), (top, left) = ((tiling.size, tiling.size), tiling.before) if not alone else (tiling.steps, (0, 0))
    tiles = Argument(**_geometry(tiling, array), rows=rows, columns=columns, top=top, left=left)
    c, move, channels = planned.c, _library().tiled_in, array.shape[1]
    transform, frames, target = (
        planned.transforms[name],
        planned.frames.ctypes.data,
        planned.by_frequency[name].ctypes.data,
    )
    f, place, argument = planned.extent.frequencies, array.ctypes.data, ctypes.byref(tiles)

    def run(block: Block, keep: object = (planned, array, tiles)) -> None:
        begin, count = block[0] * channels, block[1] * channels
        for first, here in _frames(planned, name, channels, block):
            move(place, frames, argument, begin + first, here)
            spectra = transform()
            c.fft_by_frequency(spectra.ctypes.data, target + 8 * first, here, f, count)

    return run


def _out(planned: Plan, tiling: Tiling, name: str, array: Array) -> Callable[[Block], None]:
    """Return a step that transforms a block's spectra back to outputs."""
    top, left = (span - 1 for span in tiling.spans) if tiling.reverse else (0, 0)
    tiles = Argument(**_geometry(tiling, array), top=top, left=left)
    c, move, channels = planned.c, _library().tiled_out, array.shape[1]
    transform, spectra, source = (
        planned.transforms[name],
        planned.spectra.ctypes.data,
        planned.by_frequency[name].ctypes.data,
    )
    f, place, argument = planned.extent.frequencies, array.ctypes.data, ctypes.byref(tiles)

    def run(block: Block, keep: object = (planned, array, tiles)) -> None:
        begin, count = block[0] * channels, block[1] * channels
        for first, here in _frames(planned, name, channels, block):
            c.fft_by_plane(source + 8 * first, spectra, here, f, count)
            frames = transform()
            move(frames.ctypes.data, place, argument, begin + first, here, 1 / tiling.size**2)

    return run


def _multiply(planned: Plan) -> Callable[[Block], None]:
    """Return a step that computes a block's products; wgrad adds them to the sum of earlier blocks."""
    argument = fft.products(planned)
    product, place, sums = planned.c.fft_products, ctypes.byref(argument), planned.problem.direction == "wgrad"

    def run(block: Block, keep: object = planned) -> None:
        argument.n, argument.added = block[1], sums and block[0] > 0
        product(place)

    return run


def _library() -> ctypes.CDLL:
    """Return the library of tiled.c with declared functions. Raises BuildError, Unavailable."""
    library = build.load(SOURCE)
    library.tiled_in.argtypes = (POINTER, POINTER, POINTER, INT64, INT64)
    library.tiled_out.argtypes = (*library.tiled_in.argtypes, ctypes.c_float)
    library.tiled_in.restype = library.tiled_out.restype = None
    return library


SIZES = (16, 32)


def prepare(
    problem: Conv, device: Any, setting: Setting, *, library: fft.Library, size: int, kept: bool = False
) -> Bind:
    alone(setting)
    if kept:
        cached_filter.refuse_cold(setting)
    planned = plan(problem, device, fft.blas_of_one(), library, size)
    return fft.bound(problem, planned.workspace, partial(call, planned, size), kept)


def _rows(provider: Provider, size: int, how: fft.Library, roles: tuple[str, ...]) -> tuple[Variant[Conv], ...]:
    call = partial(prepare, library=how, size=size)
    takes, executes, name = partial(accepts, size=size), partial(work, size=size), f"fft-tiled-{size}-{provider.name}"
    each = row(provider, name, call, accepts=takes, work=executes, judged=spread, roles=roles)
    return each, fft.keeping(each, partial(call, kept=True), partial(executes, kept=True), roles)


ROWS: tuple[Variant[Conv], ...] = tuple(
    each
    for size in SIZES
    for each in (
        *_rows(fft.BY_SCIPY, size, fft.by_scipy, ()),
        *_rows(fft.BY_PYFFTW, size, fft.SEARCHED["measure"], fft.ASKED),
    )
)
