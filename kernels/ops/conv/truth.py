"""The three passes of a convolution in float64, and the error bounds of an answer.

All arrays here have the axes images, channels, row, column; filters have outputs, inputs, row, column."""

from __future__ import annotations

from collections.abc import Iterator

from kernels import bounds
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.lazy import np
from kernels.ops.conv.shape import Shape
from kernels.problem import Array, Arrays, Evidence, once

# In units of u √(x² ⋆ w²). Largest correct errors of 22 problems: 95 by direct sums and im2col (forward, dgrad), 147
# by FFT; products in TF32 reach 14 200 and more.
DENSE = 512.0
SPARSE = 40.0  # in units of u |x| ⋆ |w|; the largest seen is 18, on 16 images of 224 × 224
PLANES = 16.0  # in units of u Σ ‖x‖ ‖w‖, norms of planes, over which errors spread
LOPSIDED = 128.0  # in units of u |x| ⋆ |w| for terms of one sign; the largest seen is 82
LOST = 64  # each term of one sign may lose u / LOST, uncompensated: 802 816 terms lose 5 500 u
# Terms beyond which the error of a sequential sum grows with its length: 1 865 u were seen in wgrad with 802 816 terms,
# 540 u in forward with 82 944. Kernels that transform reach at most 0.11 of what their growth allows at any length.
LONG = 3136
# The same if only factors are rounded: by at most 2^-11, or 2^-10 if truncated. The largest seen is 7.5, on sparse data
# 3.9, and in sums of channels 7.3.
ROUNDED = {"sparse": 24.0 / SPARSE, "uniform": 8.0 / LOPSIDED}
ROUNDED_DENSE = 16.0 / DENSE


def of_factors(u: float, probe: str) -> float:
    """Return the bounds' unit: u, or, for factors coarser than fp32, fp32's roundoff plus a share of u."""
    single = UNIT_ROUNDOFF["fp32"]
    return u if u < bounds.COARSE else single + ROUNDED.get(probe, ROUNDED_DENSE) * u


def of_sums(problem: Shape, probe: str, first: Array, second: Array) -> Array:
    """Return the elementwise bound in units of u.

    Errors of few terms, and of terms of one sign, do not average out, so that their bound is the sum of absolute terms.
    For kernels whose errors spread over planes, the bound is made of norms of planes."""
    if probe in problem.planes:
        size = planes(problem, first, second)
        return np.broadcast_to(PLANES * size, problem.plain(np.empty(problem.outputs[0].shape, np.bool_)).shape)
    each = _of_each(problem, probe, first, second)
    if problem.planes:  # elements that read padding alone have no terms, but their plane's errors
        return np.broadcast_to(each.max(axis=(2, 3), keepdims=True), each.shape)
    return each


def _of_each(problem: Shape, probe: str, first: Array, second: Array) -> Array:
    """Return the bound by the terms of each element alone."""
    if probe == "sparse":
        return SPARSE * absolute(problem, first, second)
    if probe in bounds.LOPSIDED:
        return max(LOPSIDED, problem.summed / LOST) * absolute(problem, first, second)
    longer = 1.0 if problem.planes else max(1.0, (problem.summed / LONG) ** 0.5)
    return DENSE * longer * quadratic(problem, first, second)


def in_full(problem: Shape, x: Arrays, got: Arrays, u: float, probe: str) -> Evidence:
    """Compare the answer with the truth, element by element."""
    name = problem.outputs[0].name
    want = once(x, "reference", lambda: problem.reference(x))[name]
    unit = once(x, (type(problem), probe), lambda: problem.laid(of_sums(problem, probe, *problem.inputs(x)), name))
    error = np.subtract(got[name], want)
    return Evidence(name, probe, np.abs(error, out=error), of_factors(u, probe) * unit)


COLUMNS = 1 << 22  # elements of im2col's matrix at a time


def output(problem: Shape, first: Array, second: Array) -> Array:
    """Return the result of the problem's pass on its inputs, in their order and in the type of the first."""
    passes = {"forward": _forward, "dgrad": _dgrad, "wgrad": _wgrad}
    return passes[problem.direction](problem, first, second)


def absolute(problem: Shape, first: Array, second: Array) -> Array:
    """Return the sum of absolute terms of every element, to which errors of a direct sum are relative."""
    return output(problem, np.abs(first).astype(np.float32), np.abs(second).astype(np.float32))


def quadratic(problem: Shape, first: Array, second: Array) -> Array:
    """Return the root of the sum of squared terms of every element."""
    squares = output(problem, np.square(first, dtype=np.float32), np.square(second, dtype=np.float32))
    return np.sqrt(squares, out=squares)


def planes(problem: Shape, first: Array, second: Array) -> Array:
    """Return Σ ‖plane of the first‖₂ ‖plane of the second‖₂, one number for a plane of the output.

    Transforms of images or tiles spread the error of one element over all elements."""
    a, b = (np.sqrt(np.square(x, dtype=np.float64).sum(axis=(2, 3), keepdims=True)) for x in (first, second))
    return output(problem.of_planes, a, b)


def _parts(problem: Shape) -> Iterator[tuple[int, slice, slice]]:
    """Yield every image with each group's slices of input channels and of output channels."""
    c, k = problem.c // problem.groups, problem.k // problem.groups
    for image in range(problem.n):
        for group in range(problem.groups):
            yield image, slice(group * c, (group + 1) * c), slice(group * k, (group + 1) * k)


def _blocks(problem: Shape) -> Iterator[slice]:
    """Yield slices of output rows, each with at most COLUMNS elements of im2col or a single row."""
    down, across = problem.lines
    row = problem.c // problem.groups * problem.r * problem.s * across.outputs
    step = max(1, COLUMNS // row)
    for first in range(0, down.outputs, step):
        yield slice(first, min(first + step, down.outputs))


def _taps(problem: Shape, rows: slice) -> Iterator[tuple[int, int, slice, slice, slice, slice]]:
    """Yield each tap that reads the image: its place in the filter, and slices of output and image.

    The slices are rows of the output, counted within `rows`, its columns, and the image's rows and columns for them."""
    down, across = problem.lines
    for r in range(problem.r):
        for s in range(problem.s):
            y, x = down.inside(r, rows.start, rows.stop), across.inside(s)
            if y and x:
                rows_read, columns_read = (
                    slice(line.at(o[0], tap), line.at(o[-1], tap) + 1, line.stride)
                    for line, o, tap in ((down, y, r), (across, x, s))
                )
                yield (
                    r,
                    s,
                    slice(y[0] - rows.start, y[-1] + 1 - rows.start),
                    slice(x[0], x[-1] + 1),
                    rows_read,
                    columns_read,
                )


def _columns(problem: Shape, image: Array, rows: slice) -> Array:
    """Return im2col of some rows of the output: taps of all channels × outputs."""
    across = problem.lines[1].outputs
    columns = np.zeros((image.shape[0], problem.r, problem.s, rows.stop - rows.start, across), image.dtype)
    for r, s, y, x, rows_read, columns_read in _taps(problem, rows):
        columns[:, r, s, y, x] = image[:, rows_read, columns_read]
    return columns.reshape(image.shape[0] * problem.r * problem.s, -1)


def _forward(problem: Shape, x: Array, w: Array) -> Array:
    down, across = problem.lines
    y = np.zeros((problem.n, problem.k, down.outputs, across.outputs), x.dtype)
    narrow = problem.k < problem.c and problem.groups == problem.stride == 1
    flat = w.reshape(problem.k, -1)
    for image, c, k in _parts(problem):
        if narrow:
            _shifted(problem, x[image], w, y[image])
            continue
        for rows in _blocks(problem):
            product = flat[k] @ _columns(problem, x[image, c], rows)
            y[image, k, rows] = product.reshape(len(product), -1, across.outputs)
    return y


def _shifted(problem: Shape, x: Array, w: Array, y: Array) -> None:
    """Add each tap's product with the shifted image to `y`, the result of one image.

    This reads and writes less than im2col if an image has more channels than its result."""
    pixels = x.reshape(problem.c, -1)
    step = max(1, COLUMNS // (problem.r * problem.s * problem.h * problem.w))
    for first in range(0, problem.k, step):
        filters = slice(first, first + step)
        taps = w[filters].transpose(0, 2, 3, 1).reshape(-1, problem.c) @ pixels
        taps = taps.reshape(-1, problem.r, problem.s, problem.h, problem.w)
        for r, s, rows, columns, rows_read, columns_read in _taps(problem, slice(0, y.shape[1])):
            y[filters, rows, columns] += taps[:, r, s, rows_read, columns_read]


def _dgrad(problem: Shape, dy: Array, w: Array) -> Array:
    dx = np.zeros((problem.n, problem.c, problem.h, problem.w), dy.dtype)
    flat = w.reshape(problem.k, -1)
    across = problem.lines[1].outputs
    for image, c, k in _parts(problem):
        for rows in _blocks(problem):
            part = dy[image, k, rows]
            columns = flat[k].T @ part.reshape(len(part), -1)
            columns = columns.reshape(-1, problem.r, problem.s, rows.stop - rows.start, across)
            for r, s, y, x, rows_read, columns_read in _taps(problem, rows):
                dx[image, c, rows_read, columns_read] += columns[:, r, s, y, x]
    return dx


def _wgrad(problem: Shape, x: Array, dy: Array) -> Array:
    dw = np.zeros((problem.k, problem.c // problem.groups * problem.r * problem.s), x.dtype)
    for image, c, k in _parts(problem):
        for rows in _blocks(problem):
            part = dy[image, k, rows]
            dw[k] += part.reshape(len(part), -1) @ _columns(problem, x[image, c], rows).T
    return dw.reshape(problem.k, -1, problem.r, problem.s)
