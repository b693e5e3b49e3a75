"""Parts of a convolution that are convolutions themselves, for verified samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from kernels import places
from kernels.lazy import np
from kernels.ops.conv import layouts
from kernels.ops.conv.layouts import Numbers
from kernels.ops.conv.shape import Shape
from kernels.places import Places

Part: TypeAlias = "tuple[Shape, dict[str, Places]]"


def part(problem: Shape, rng: np.random.Generator) -> Part:
    """Return a random part of a problem, and its places in each operand.

    The part is one result row of an image (forward), up to `stride` rows (dgrad), or one tap of some filters (wgrad);
    it is the full problem if only padding is read."""
    some = _of_filters(problem, rng) if problem.direction == "wgrad" else _of_image(problem, rng)
    return some or (problem, {x.name: places.every(x.shape) for x in problem.operands()})


def _of_image(problem: Shape, rng: np.random.Generator) -> Part | None:
    """Return one output row of an image, in dgrad `stride` image rows, or None if only padding is read."""
    down, across = problem.lines
    reading = [o for o in range(down.outputs) if down.of_output(o)[0]]
    if not reading:
        return None
    output = int(rng.choice(reading))
    if problem.direction == "forward":
        rows, line = down.of_output(output)
        outputs = range(output, output + 1)
    else:
        first = max(0, down.at(output, 0))
        rows = range(first, min(first + problem.stride, problem.h))
        outputs, line = down.of_places(first, len(rows))
    terms = problem.summed * max(across.outputs, problem.w)
    filters, channels, inputs = _channels(problem, rng, max(1, places.TERMS // terms))
    image = np.array([rng.integers(problem.n)])
    operands = {
        "x": layouts.image_places(problem.layout, image, channels, rows, range(problem.w)),
        "y": layouts.image_places(problem.layout, image, filters, outputs, range(across.outputs)),
        "w": layouts.filter_places(problem.layout, filters, inputs, range(problem.r), range(problem.s)),
    }
    smaller = replace(
        problem,
        n=1,
        c=len(channels),
        k=len(filters),
        groups=1,
        h=line.size,
        pad=0,
        pad_top=line.before,
        pad_bottom=line.after,
    )
    return smaller, {x.name: operands[x.name[-1]] for x in problem.operands()}


def _of_filters(problem: Shape, rng: np.random.Generator) -> Part | None:
    """Return one tap of some filters, summed over all images, or None if only padding is read."""
    lines = problem.lines
    taps = [[t for t in range(line.taps) if line.of_tap(t)[0]] for line in lines]
    if not all(taps):
        return None
    r, s = (int(rng.choice(of)) for of in taps)
    (rows, down), (columns, across) = (line.of_tap(tap) for line, tap in zip(lines, (r, s), strict=True))
    filters, channels, inputs = _channels(problem, rng, max(1, places.TERMS // problem.summed))
    images = np.arange(problem.n)
    operands = {
        "x": layouts.image_places(problem.layout, images, channels, rows, columns),
        "y": layouts.image_places(problem.layout, images, filters, range(down.outputs), range(across.outputs)),
        "w": layouts.filter_places(problem.layout, filters, inputs, range(r, r + 1), range(s, s + 1)),
    }
    smaller = replace(
        problem,
        c=len(channels),
        k=len(filters),
        groups=1,
        h=down.size,
        w=across.size,
        r=1,
        s=1,
        dilation=1,
        pad=0,
        pad_top=down.before,
        pad_bottom=down.after,
        pad_left=across.before,
        pad_right=across.after,
    )
    return smaller, {x.name: operands[x.name[-1]] for x in problem.operands()}


def _channels(problem: Shape, rng: np.random.Generator, most: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return filters and channels of one random group, and the channels' indices within a filter.

    Filters or channels that are summed over are all taken, the others in random blocks, about `most` in all."""
    c, k = problem.c // problem.groups, problem.k // problem.groups
    block = layouts.BLOCK if problem.layout == "nchw16c" else 1
    group = int(rng.integers(problem.groups))
    filters, inputs = np.arange(k), np.arange(c)
    if problem.direction != "dgrad":
        filters = places.blocks(rng, k, max(most, block), block)
    if problem.direction != "forward":
        inputs = places.blocks(
            rng, c, max(1, block, most // (len(filters) if problem.direction == "wgrad" else 1)), block
        )
    return filters + group * k, inputs + group * c, inputs
