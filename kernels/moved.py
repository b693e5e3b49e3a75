"""What is right of numbers that are moved and stay what they are, and of operands that are one row each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernels import places
from kernels.problem import Excerpt, Problem

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array

LENGTH = 4  # bytes of a number
SPECIAL = (math.nan, math.inf)  # a copy of them is the same


def truth(source: Array) -> Array:
    """The right answer in float64."""
    array: Array = source.astype("f8")
    return array


def exactly(want: Array) -> Array:
    """The bound of a copy: no error at all."""
    import numpy as np

    bound: Array = np.zeros_like(want)
    return bound


def some(problem: Problem, rng: np.random.Generator, count: int, **part: Any) -> Excerpt:
    """Elements anywhere of operands of `count` numbers each, as a problem of that `size` in bytes; `part`: its other
    fields where they differ."""
    row = (*places.every((1,)), places.elements(rng, count))
    smaller: Problem = replace(problem, **{"size": LENGTH * len(row[1])} | part)
    return Excerpt(smaller, {x.name: row for x in problem.operands()})
