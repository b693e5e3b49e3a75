"""Reference, bound and excerpts of operations that move numbers unchanged, with operands of one row."""

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
    """Return the right answer, in float64."""
    array: Array = source.astype("f8")
    return array


def exactly(want: Array) -> Array:
    """Return the bound of a copy: zero error."""
    import numpy as np

    bound: Array = np.zeros_like(want)
    return bound


def some(problem: Problem, rng: np.random.Generator, count: int, **part: Any) -> Excerpt:
    """Return an excerpt of random elements of operands of `count` numbers each.

    The excerpt is a problem of that `size` in bytes; `part`: its other fields where they differ."""
    row = (*places.every((1,)), places.elements(rng, count))
    smaller: Problem = replace(problem, **{"size": LENGTH * len(row[1])} | part)
    return Excerpt(smaller, {x.name: row for x in problem.operands()})
