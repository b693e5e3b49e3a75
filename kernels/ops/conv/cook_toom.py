"""Winograd's matrices for filters of three taps by Cook-Toom interpolation, in exact fractions.

y = Aᵀ[(G g) ⊙ (Bᵀ d)] computes m outputs from the taps g and m + 2 inputs d by m + 2 products, one for each of m + 1
finite points and one for the point at infinity. The choice of points affects rounding errors alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

Matrix: TypeAlias = "tuple[tuple[Fraction, ...], ...]"
TAPS = 3


@dataclass(frozen=True)
class Matrices:
    """The matrices of F(m, 3): A is (m + 2) × m, G (m + 2) × 3, Bᵀ square.

    Points ±p make neighboring rows that differ in the sign of every second element."""

    a: Matrix
    g: Matrix
    bt: Matrix


def cook_toom(points: Sequence[Fraction]) -> Matrices:
    """Return the matrices for m + 1 finite points.

    Each row of G and the same row of Bᵀ are scaled by opposite powers of two to about equal absolute sums, because rows
    of very different size lose precision in later sums, though not in their product."""
    m = len(points) - TAPS + 2
    weights = [math.prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    a = [[p**i for i in range(m)] for p in points] + [[Fraction(i == m - 1) for i in range(m)]]
    g = [[p**i / weight for i in range(TAPS)] for p, weight in zip(points, weights, strict=True)]
    g.append([Fraction(i == TAPS - 1) for i in range(TAPS)])
    bt = [[*_with_roots([q for q in points if q != p]), Fraction(0)] for p in points] + [_with_roots(points)]
    for left, right in zip(g, bt, strict=True):
        power = round(math.log2(_size(right) / _size(left)) / 2)
        left[:] = [x * Fraction(2) ** power for x in left]
        right[:] = [x / Fraction(2) ** power for x in right]
    return Matrices(*(tuple(map(tuple, rows)) for rows in (a, g, bt)))


def _with_roots(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of Π(x − root), lowest first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [high - root * low for high, low in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return coefficients


def _size(row: Sequence[Fraction]) -> Fraction:
    return sum(map(abs, row), start=Fraction(0))


def points(*sizes: str) -> tuple[Fraction, ...]:
    """Return the points 0 and ± each size; sizes are text such as 2 or 5/8."""
    return (Fraction(0), *(sign * Fraction(size) for size in sizes for sign in (1, -1)))
