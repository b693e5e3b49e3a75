"""Launches of the kernels of implicit.cu."""

from __future__ import annotations

from pathlib import Path

from kernels.nvcc import Geometry, over
from kernels.ops.conv.shape import PASSES, Shape

SOURCE = Path(__file__).with_name("implicit.cu")
KERNELS = tuple(f"implicit_{x}" for x in PASSES)
TILE, THREADS = 64, 256  # rows and columns of the result that a block computes; its threads
USEFUL, BLOCKS, LONG = 16, 32, 10_000  # least useful rows of a tile; least blocks for sums of more than LONG terms
LARGE = 1e9  # FLOPs beyond which a problem that wastes the card is refused, because other variants would wait for it
PLACES = (1 << 31) - TILE  # limit of pixels, results and terms: 32-bit indices, because their division is cheaper


def kernel(problem: Shape) -> str:
    """Return the name of the kernel that solves a problem."""
    return f"implicit_{problem.direction}"


def launches(problem: Shape, name: str) -> tuple[Geometry, ...]:
    """Return the geometry of the problem's only launch."""
    c, k = problem.c // problem.groups, problem.k // problem.groups
    down, across = (line.outputs for line in problem.lines)
    _, blocks = tiles(problem)
    images = (problem.n, c, problem.h, problem.w, k, problem.r, problem.s)
    placed = (problem.stride, problem.pad_top, problem.pad_left, problem.dilation, problem.groups, down, across)
    return (over(name, blocks, THREADS, [x.name for x in problem.operands()], *images, *placed),)


def tiles(problem: Shape) -> tuple[int, int]:
    """Return the rows of one group's implicit product, and the number of blocks of all groups."""
    c, k = problem.c // problem.groups, problem.k // problem.groups
    rows, cols = {
        "forward": (k, problem.n * problem.outputs_of_image),
        "dgrad": (c, problem.n * problem.h * problem.w),
        "wgrad": (k, c * problem.r * problem.s),
    }[problem.direction]
    return rows, problem.groups * -(-rows // TILE) * -(-cols // TILE)


def refused(problem: Shape) -> str | None:
    """Return why the implicit kernels refuse a problem, or None if they accept it."""
    if problem.layout != "nchw":
        return "its addressing requires --layout nchw"
    rows, blocks = tiles(problem)
    if problem.flops > LARGE and rows < USEFUL:
        return f"only {rows} of a tile's {TILE} rows would be used: use {USEFUL} channels per group, or less work"
    if problem.flops > LARGE and blocks < BLOCKS and problem.summed > LONG:
        return f"only {blocks} blocks would each sum {problem.summed} terms: use more channels or a smaller --n"
    pixels = problem.n * max(problem.h * problem.w, problem.outputs_of_image)
    if max(pixels, max(problem.c, problem.k) * problem.r * problem.s) >= PLACES:
        return f"--n {problem.n} --h {problem.h} --w {problem.w}: all images together must have fewer than 2^31 pixels"
    return None
