"""Numbers in float64, each with the mean squared error that roundings would give it.

An operation adds the square of its own rounding, in squared unit roundoffs, to the squared errors of its inputs times
the squares of its derivatives, as independent errors add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernels.lazy import np
from kernels.problem import Array

FUNCTION = 4.0  # unit roundoffs of an exponential or tanh


@dataclass(frozen=True)
class Known:
    """Numbers, and their mean squared errors."""

    value: Array
    error: Array

    @cached_property
    def size(self) -> Array:
        return np.abs(self.value)

    @cached_property
    def square(self) -> Array:
        square: Array = self.value**2
        return square

    @cached_property
    def exact(self) -> bool:
        return not self.error.any()

    def __add__(self, other: Known) -> Known:
        value = self.value + other.value
        return Known(value, self.error + other.error + value**2)

    def __sub__(self, other: Known) -> Known:
        return self + Known(-other.value, other.error)

    def __mul__(self, other: Known) -> Known:
        value = self.value * other.value
        return Known(value, self.error * other.value**2 + other.error * self.value**2 + value**2)

    def __matmul__(self, other: Known) -> Known:
        """Return the product of matrices, whose sums round as much as if all terms had one sign."""
        error = (self.size @ other.size) ** 2
        if not self.exact:
            error += self.error @ other.square
        if not other.exact:
            error += self.square @ other.error
        return Known(self.value @ other.value, error)

    def __getitem__(self, at: Any) -> Known:
        return Known(self.value[at], self.error[at])

    @cached_property
    def transposed(self) -> Known:
        return Known(self.value.T, self.error.T)

    def rest(self) -> Known:
        """Return 1 − x."""
        return Known(1 - self.value, self.error + (1 - self.value) ** 2)

    def sigmoid(self) -> Known:
        value = 1 / (1 + np.exp(-self.value))
        return Known(value, self.error * (value * (1 - value)) ** 2 + (FUNCTION * value) ** 2)

    def tanh(self) -> Known:
        value = np.tanh(self.value)
        return Known(value, self.error * (1 - value**2) ** 2 + (FUNCTION * value) ** 2)

    def where(self, mask: Array, other: Known) -> Known:
        return Known(np.where(mask, self.value, other.value), np.where(mask, self.error, other.error))


def exact(value: Array) -> Known:
    """Return numbers as they are in memory."""
    wide = np.asarray(value, "f8")
    return Known(wide, np.zeros_like(wide))


def joined(parts: Sequence[Known]) -> Known:
    """Return arrays side by side."""
    return Known(np.concatenate([x.value for x in parts], -1), np.concatenate([x.error for x in parts], -1))


def through_sigmoid(slope: Known, y: Known) -> Known:
    """Return the gradient before a sigmoid whose output is `y`."""
    return slope * y * y.rest()


def through_tanh(slope: Known, y: Known) -> Known:
    """Return the gradient before a tanh whose output is `y`."""
    return slope * (y * y).rest()


def stacked(*parts: Known) -> Known:
    """Return arrays one below the other."""
    return Known(np.concatenate([x.value for x in parts]), np.concatenate([x.error for x in parts]))
