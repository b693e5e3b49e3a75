"""Error bounds that several operations share, and how a NaN or an infinity is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.dtypes import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from kernels.dtypes import Array

PRODUCT = 16.0  # honest products make at most 5.5 u |A||B| from K = 1 to 26752, half precision 187 u
COARSE = UNIT_ROUNDOFF["fp16"]  # from here on an error is a random sum of the roundings of its terms
STORED_COARSELY = 4.0  # of u |A||B| / √K: partial sums that are rounded, where inputs are exact as they lie in memory
ROUNDED_INPUTS = 6.0  # … inputs that are rounded or cut on the way: honest ones make 4.7 (cut to TF32, K = 256)
IDLE = 2.0**-20  # of terms that do not count in a sparse probe, in both factors: products are 2^-40 of the others'
GRADES = 6  # rows of one probe differ in size by up to 10 to so many, up and down
LOPSIDED = ("uniform",)  # data whose mean is not zero: its sums grow with their terms, and so do their errors


def product(absolute: Array, want: Array, u: float, terms: int, *, inputs_exact: bool = False) -> Array:
    """The most that a product may be off by: PRODUCT u |A||B| in single precision. In a coarser one roundings of the
    terms are independent and add up like a random walk, to u |A||B| / √K and not to u |A||B|: a few missing terms of
    thousands show. What single precision does to the sums, which a tensor core cuts off, and the rounding of the result
    come on top. `inputs_exact`: they have the type in which they are multiplied; only partial sums are rounded to it.
    `absolute`, |A||B|, is the caller's to lose."""
    import numpy as np

    if u < COARSE:
        absolute *= PRODUCT * u
        return absolute
    walk = STORED_COARSELY if inputs_exact else ROUNDED_INPUTS
    partial = 4 * PRODUCT * UNIT_ROUNDOFF["fp32"] + walk * u / np.sqrt(max(terms, 1))
    allowed: Array = absolute * partial + 2 * u * np.abs(want)
    return allowed


def wider(probe: str, terms: int) -> float:
    """How much more sums of so many terms may be off by where they do not average out: 4 √K u |A||B|, not 16 u."""
    return max(1.0, terms**0.5 / 4) if probe in LOPSIDED else 1.0


def judged(got: Array, want: Array, error: Array, bound: Array) -> tuple[Array, Array]:
    """Error and bound of a probe with NaN and infinity in it: where the right answer is one of them, only that is
    right; elsewhere as ever."""
    import numpy as np

    odd = ~np.isfinite(want)
    same = np.where(np.isnan(want), np.isnan(got), got == want)
    return np.where(odd, np.where(same, 0.0, np.inf), error), np.where(odd, 0.0, bound)
