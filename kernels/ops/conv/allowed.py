"""What honest arithmetic may be off by in a convolution, by what its terms are like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels import bounds
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.ops.conv import truth
from kernels.problem import Evidence, once

if TYPE_CHECKING:
    from kernels.ops.conv.shape import Shape
    from kernels.problem import Array, Arrays

# Largest honest errors of 22 problems in shares of u √(x² ⋆ w²): direct sums and im2col 95 forward and dgrad, FFT 147;
# products of TF32 make 14 200 and more.
DENSE = 512.0
SPARSE = 40.0  # in shares of u |x| ⋆ |w|: 18 were seen, of 16 images of 224 × 224
PLANES = 16.0  # … of u Σ ‖x‖ ‖w‖, where errors spread
LOPSIDED = 128.0  # … of terms of one sign: 82
LOST = 64  # terms of a sum of them, each of which may lose so much of u that is not made up for: 802 816 lose 5 500 u
# Terms from which on a sum in a row shows its length: of a filter's gradient 1 865 u of 802 816 were seen, forward 540
# u of 82 944; of kernels that transform at most 0.11 of what their growth allows at any length.
LONG = 3136
# … where factors alone are rounded: 2^-11 of each at most, 2^-10 where it is cut; 7.5 were seen, of sparse data
# 3.9, and 7.3 in sums of channels.
ROUNDED = {"sparse": 24.0 / SPARSE, "uniform": 8.0 / LOPSIDED}
ROUNDED_DENSE = 16.0 / DENSE


def of_factors(u: float, probe: str) -> float:
    """What u is in these units: sums are in single precision, of which all of them are, also where factors are not."""
    single = UNIT_ROUNDOFF["fp32"]
    return u if u < bounds.COARSE else single + ROUNDED.get(probe, ROUNDED_DENSE) * u


def of_sums(problem: Shape, probe: str, first: Array, second: Array) -> Array:
    """In units of u, by element. Errors of few terms, and of terms of one sign, do not average out: there the sum
    without signs counts; the planes' norms for kernels whose errors spread over these."""
    import numpy as np

    if probe in problem.planes:
        size = truth.planes(problem, first, second)
        return np.broadcast_to(PLANES * size, problem.plain(np.empty(problem.outputs[0].shape, np.bool_)).shape)
    each = _of_each(problem, probe, first, second)
    if problem.planes:  # what reads padding alone, and has no terms, has its plane's errors too
        return np.broadcast_to(each.max(axis=(2, 3), keepdims=True), each.shape)
    return each


def _of_each(problem: Shape, probe: str, first: Array, second: Array) -> Array:
    """By the terms of an element alone."""
    if probe == "sparse":
        return SPARSE * truth.absolute(problem, first, second)
    if probe in bounds.LOPSIDED:
        return max(LOPSIDED, problem.summed / LOST) * truth.absolute(problem, first, second)
    longer = 1.0 if problem.planes else max(1.0, (problem.summed / LONG) ** 0.5)
    return DENSE * longer * truth.quadratic(problem, first, second)


def in_full(problem: Shape, x: Arrays, got: Arrays, u: float, probe: str) -> Evidence:
    """The answer against the truth, element by element."""
    import numpy as np

    name = problem.outputs[0].name
    want = once(x, "reference", lambda: problem.reference(x))[name]
    unit = once(x, (type(problem), probe), lambda: problem.laid(of_sums(problem, probe, *problem.inputs(x)), name))
    error = np.subtract(got[name], want)
    return Evidence(name, probe, np.abs(error, out=error), of_factors(u, probe) * unit)
