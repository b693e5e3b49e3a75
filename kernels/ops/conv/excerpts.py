"""Parts of a convolution that are convolutions of their own: what a witness looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kernels import places
from kernels.ops.conv.problem import BLOCK, Conv
from kernels.problem import Excerpt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernels.places import Places

    Numbers = NDArray[np.int64]


def excerpt(problem: Conv, rng: np.random.Generator) -> Excerpt:
    """A row of one image's result, or as many as a stride; of a filter's gradient one tap of some filters; all where
    only padding is read."""
    part = _of_filters(problem, rng) if problem.direction == "wgrad" else _of_image(problem, rng)
    return part or Excerpt(problem, {x.name: places.every(x.shape) for x in problem.operands()})


def _of_image(problem: Conv, rng: np.random.Generator) -> Excerpt | None:
    """Forward: one row of outputs. Dgrad: the rows from the first that an output reads on."""
    import numpy as np

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
        "x": _images(problem, image, channels, rows, range(problem.w)),
        "y": _images(problem, image, filters, outputs, range(across.outputs)),
        "w": _filters(problem, filters, inputs, range(problem.r), range(problem.s)),
    }
    part = replace(
        problem, n=1, c=len(channels), k=len(filters), groups=1, h=line.size, pad_top=line.before, pad_bottom=line.after
    )
    return Excerpt(part, {x.name: operands[x.name[-1]] for x in problem.operands()})


def _of_filters(problem: Conv, rng: np.random.Generator) -> Excerpt | None:
    """One tap of some filters, summed over all images."""
    import numpy as np

    lines = problem.lines
    taps = [[t for t in range(line.taps) if line.of_tap(t)[0]] for line in lines]
    if not all(taps):
        return None
    r, s = (int(rng.choice(of)) for of in taps)
    (rows, down), (columns, across) = (line.of_tap(tap) for line, tap in zip(lines, (r, s), strict=True))
    filters, channels, inputs = _channels(problem, rng, max(1, places.TERMS // problem.summed))
    images = np.arange(problem.n)
    operands = {
        "x": _images(problem, images, channels, rows, columns),
        "y": _images(problem, images, filters, range(down.outputs), range(across.outputs)),
        "w": _filters(problem, filters, inputs, range(r, r + 1), range(s, s + 1)),
    }
    part = replace(
        problem,
        c=len(channels),
        k=len(filters),
        groups=1,
        h=down.size,
        w=across.size,
        r=1,
        s=1,
        dilation=1,
        pad_top=down.before,
        pad_bottom=down.after,
        pad_left=across.before,
        pad_right=across.after,
    )
    return Excerpt(part, {x.name: operands[x.name[-1]] for x in problem.operands()})


def _channels(problem: Conv, rng: np.random.Generator, most: int) -> tuple[Numbers, Numbers, Numbers]:
    """Filters and channels of one group, all that are summed, some of those that an output has; and the channels as a
    filter counts them."""
    import numpy as np

    c, k = problem.c // problem.groups, problem.k // problem.groups
    block = BLOCK if problem.layout == "nchw16c" else 1
    group = int(rng.integers(problem.groups))
    filters, inputs = np.arange(k), np.arange(c)
    if problem.direction != "dgrad":
        filters = places.blocks(rng, k, max(most, block), block)
    if problem.direction != "forward":
        inputs = places.blocks(
            rng, c, max(1, block, most // (len(filters) if problem.direction == "wgrad" else 1)), block
        )
    return filters + group * k, inputs + group * c, inputs


def _images(problem: Conv, images: Numbers, channels: Numbers, rows: Sequence[int], columns: Sequence[int]) -> Places:
    """Of an operand that is images, in its layout."""
    import numpy as np

    down, across = np.asarray(rows), np.asarray(columns)
    if problem.layout == "nhwc":
        return images, down, across, channels
    if problem.layout == "nchw16c":
        return images, channels[::BLOCK] // BLOCK, down, across, np.arange(BLOCK)
    return images, channels, down, across


def _filters(problem: Conv, filters: Numbers, inputs: Numbers, r: Sequence[int], s: Sequence[int]) -> Places:
    """Of an operand that is filters, in its layout."""
    import numpy as np

    down, across = np.asarray(r), np.asarray(s)
    if problem.layout == "nhwc":
        return filters, down, across, inputs
    if problem.layout == "nchw16c":
        block = np.arange(BLOCK)
        return filters[::BLOCK] // BLOCK, inputs[::BLOCK] // BLOCK, down, across, block, block
    return filters, inputs, down, across
