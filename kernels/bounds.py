"""Error bounds shared by several operations, and their extension to NaN and infinity."""

from __future__ import annotations

from kernels.dtypes import UNIT_ROUNDOFF, Array
from kernels.lazy import np

PRODUCT = 16.0  # correct products err by at most 5.5 u |A||B| from K = 1 to 26752, in half precision by 187 u
COARSE = UNIT_ROUNDOFF["fp16"]  # from this unit roundoff up, errors of terms add up like a random walk
STORED_COARSELY = 4.0  # times u |A||B| / √K: bound if partial sums are rounded and inputs are exact in memory
ROUNDED_INPUTS = 6.0  # times the same, if inputs are rounded or truncated: correct kernels reach 4.7 (TF32, K = 256)
IDLE = 2.0**-20  # scale of both factors of a sparse probe's negligible terms, so that their products are 2^-40
GRADES = 6  # rows of one probe are scaled by up to 10^±GRADES
LOPSIDED = ("uniform",)  # data with a nonzero mean: sums, and so their errors, grow with the number of terms


def product(absolute: Array, want: Array, u: float, terms: int, *, inputs_exact: bool = False) -> Array:
    """Return the largest error allowed in each element of a product of `terms` terms.

    In single precision the bound is PRODUCT u |A||B|. In a coarser type the roundings of the terms are independent
    and add up like a random walk, to u |A||B| / √K instead of u |A||B|, so that a few missing terms of thousands
    show. Errors of fp32 sums, which a tensor core truncates, and of the result's rounding are added. `inputs_exact`:
    inputs have the type that is multiplied, so that only partial sums are rounded to it. `absolute`, |A||B|, is
    overwritten."""
    if u < COARSE:
        absolute *= PRODUCT * u
        return absolute
    walk = STORED_COARSELY if inputs_exact else ROUNDED_INPUTS
    partial = 4 * PRODUCT * UNIT_ROUNDOFF["fp32"] + walk * u / np.sqrt(max(terms, 1))
    allowed: Array = absolute * partial + 2 * u * np.abs(want)
    return allowed


def wider(probe: str, terms: int) -> float:
    """Return the factor on a bound for data with a nonzero mean: 4 √K u |A||B| replaces 16 u |A||B|."""
    return max(1.0, terms**0.5 / 4) if probe in LOPSIDED else 1.0


def judged(got: Array, want: Array, error: Array, bound: Array) -> tuple[Array, Array]:
    """Return error and bound of a probe that contains NaN and infinity.

    Where the right answer is NaN or infinite, any other value has an infinite error; elsewhere both are unchanged."""
    odd = ~np.isfinite(want)
    same = np.where(np.isnan(want), np.isnan(got), got == want)
    return np.where(odd, np.where(same, 0.0, np.inf), error), np.where(odd, 0.0, bound)
