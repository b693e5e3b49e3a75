"""Products that are right and do less than the nominal work, or say nothing of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from kernels.ops.gemm.problem import Gemm
from kernels.problem import Work
from tests.wrong.kernels import made

if TYPE_CHECKING:
    from kernels.problem import Array
    from kernels.variant import Variant

LEVELS = 5  # (7/8)^5 = 0.51 of the multiplications


def product(a: Array, b: Array, levels: int) -> Array:
    """Strassen's seven products in place of eight, so many levels deep (Strassen 1969)."""
    if not levels:
        return a @ b
    m, k, n = a.shape[0] // 2, a.shape[1] // 2, b.shape[1] // 2
    a11, a12, a21, a22 = a[:m, :k], a[:m, k:], a[m:, :k], a[m:, k:]
    b11, b12, b21, b22 = b[:k, :n], b[:k, n:], b[k:, :n], b[k:, n:]
    pairs = (
        (a11 + a22, b11 + b22),
        (a21 + a22, b11),
        (a11, b12 - b22),
        (a22, b21 - b11),
        (a11 + a12, b22),
        (a21 - a11, b11 + b12),
        (a12 - a22, b21 + b22),
    )
    p, q, r, s, t, u, v = (product(x, y, levels - 1) for x, y in pairs)
    return np.block([[p + s - t + v, r + t], [q + s, p - q + r + u]])


def strassen(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = product(left, right, LEVELS)


SILENT = dataclasses.replace(made("SILENT", strassen), growth=4.0**LEVELS)
DECLARES: Variant[Gemm] = dataclasses.replace(
    SILENT, name="DECLARES", work=lambda problem: Work(problem.flops * (7 / 8) ** LEVELS, problem.bytes)
)
