"""Base of operations that copy numbers unchanged between one-row operands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels import places
from kernels.lazy import np
from kernels.problem import Excerpt, Operand, Problem

LENGTH = 4  # bytes of a number
SPECIAL = (math.nan, math.inf)  # values that a copy must preserve


def some(problem: Problem, rng: np.random.Generator, count: int, **part: Any) -> Excerpt:
    """Return an excerpt: random elements of operands that hold `count` numbers each.

    The excerpt's problem has their `size` in bytes; `part`: its other fields that differ from the problem's."""
    elements = places.elements(rng, count)
    return problem.excerpt_elements(elements, **{"size": LENGTH * len(elements)} | part)


@dataclass(frozen=True)
class Moved(Problem):
    """Base of operations that copy a vector x of `size` bytes to y."""

    if TYPE_CHECKING:
        size: int

    @property
    def count(self) -> int:
        return self.size // LENGTH

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 1}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {"x": SPECIAL}

    def operands(self) -> tuple[Operand, ...]:
        row = (1, self.count)
        return Operand("x", row, "in"), Operand("y", row, "out")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        return some(self, rng, self.count)
