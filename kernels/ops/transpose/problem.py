"""Out-of-place transposition of a row-major matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from kernels import places
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis


@dataclass(frozen=True)
class Transpose(Problem):
    """Transposition y[j, i] = x[i, j] of x, rows × cols; the result, a NaN included, is exact."""

    op: ClassVar[str] = "transpose"

    rows: int = axis("rows of the input", low=1)
    cols: int = axis("columns of the input", low=1)

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 0}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {"x": (math.nan, math.inf)}

    def operands(self) -> tuple[Operand, ...]:
        return Operand("x", (self.rows, self.cols), "in"), Operand("y", (self.cols, self.rows), "out")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        rows, cols = places.tile(rng, self.rows, self.cols, 1)
        return Excerpt(replace(self, rows=len(rows), cols=len(cols)), {"x": (rows, cols), "y": (cols, rows)})

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"y": x["x"].T.astype("f8")}
