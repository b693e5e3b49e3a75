"""Winograd's matrices for filters of three taps, by Cook and Toom's interpolation: exact.

y = Aᵀ[(G g) ⊙ (Bᵀ d)] are the m sums of the taps g with m + 2 numbers d, by one product for each of the m + 1 points
and one for the point at infinity. Everything else about a point is exact; its rounding errors are what tells points
apart.
"""

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
    """Of m outputs: A is (m + 2) × m, G (m + 2) × 3, Bᵀ square. A pair of points ±p makes neighboring rows that differ
    in every second sign."""

    a: Matrix
    g: Matrix
    bt: Matrix


def cook_toom(points: Sequence[Fraction]) -> Matrices:
    """Of m + 1 finite points. A row of G and its row of Bᵀ are scaled against each other by a power of two, until
    their sums are about as large: a product of one small and one large factor would lose no less, but its sums do."""
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
    """The coefficients of Π(x − root), lowest first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [high - root * low for high, low in zip(shifted, [*coefficients, Fraction(0)], strict=True)]
    return coefficients


def _size(row: Sequence[Fraction]) -> Fraction:
    return sum(map(abs, row), start=Fraction(0))


def points(*sizes: str) -> tuple[Fraction, ...]:
    """0 and ± each size, as text: an integer or a fraction."""
    return (Fraction(0), *(sign * Fraction(size) for size in sizes for sign in (1, -1)))
