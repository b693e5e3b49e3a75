"""Epilogue of a fully connected layer, y = max(x + b, 0), and the first part of its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from kernels import bounds, places
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis, direction

LIMIT = 16.0  # unit roundoffs of a sum, as for a product


@dataclass(frozen=True)
class BiasAct(Problem):
    """Bias and ReLU: y = max(x + b, 0) with x rows × cols and b a row, or their gradients (dgrad).

    With `terms`, x is the product of a, rows × terms, and w, terms × cols. dgrad takes the forward's result as x:
    dx is dy where x > 0, and db sums dx down the columns; a library's epilogue computes both together.
    Infinities pass through or become 0 if negative; the maximum of a NaN is not checked.
    """

    op: ClassVar[str] = "biasact"

    rows: int = axis("rows (batch size)", low=1)
    cols: int = axis("columns (outputs of the layer)", low=1)
    terms: int = axis("K of a preceding matrix product; 0: no product", 0, low=0)
    phase: str = direction("bias and ReLU, or their gradients", "forward", "dgrad")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.terms and self.phase == "dgrad":
            raise UsageError(f"--terms {self.terms}: the gradient has no preceding product: --terms 0")

    @property
    def count(self) -> int:
        return self.rows * self.cols

    @property
    def flops(self) -> float:
        return 2.0 * self.count * (1 + self.terms)

    @property
    def summed(self) -> int:
        return self.terms or self.rows

    @property
    def graded(self) -> dict[str, int]:
        return {"a" if self.terms else "x": 0} if self.phase == "forward" else {}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {} if self.phase == "dgrad" or self.terms else {"x": (math.inf, -math.inf)}

    def operands(self) -> tuple[Operand, ...]:
        shape = (self.rows, self.cols)
        if self.phase == "dgrad":
            db = Operand("db", (1, self.cols), "out")
            return Operand("x", shape, "in"), Operand("dy", shape, "in"), Operand("dx", shape, "out"), db
        b, y = Operand("b", (1, self.cols), "in"), Operand("y", shape, "out")
        if self.terms:
            return (Operand("a", (self.rows, self.terms), "in"), Operand("w", (self.terms, self.cols), "in"), b, y)
        return Operand("x", shape, "in"), b, y

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        x = super().fill(rng, probe)
        if self.phase == "dgrad":
            x["x"] = np.maximum(x["x"], 0)
        return x

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        rows, cols = places.tile(rng, self.rows, self.cols, max(1, self.terms))
        if self.phase == "dgrad":  # sums need whole columns
            rows, cols = places.every((self.rows,))[0], places.rows(rng, self.cols, self.rows)
        row, terms = places.every((1, self.terms))
        of = {"a": (rows, terms), "w": (terms, cols), "b": (row, cols), "db": (row, cols)}
        part = replace(self, rows=len(rows), cols=len(cols))
        return Excerpt(part, {x.name: of.get(x.name, (rows, cols)) for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        if self.phase == "dgrad":
            gradient = np.where(x["x"] > 0, x["dy"].astype("f8"), 0)
            return {"dx": gradient, "db": gradient.sum(axis=0, keepdims=True)}
        before = x["a"].astype("f8") @ x["w"].astype("f8") if self.terms else x["x"].astype("f8")
        return {"y": np.maximum(before + x["b"], 0)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        if self.phase == "dgrad":
            size = np.abs(want["dx"])
            return {"dx": np.zeros_like(size), "db": LIMIT * u * size.sum(axis=0, keepdims=True)}
        if self.terms:
            size = np.abs(x["a"]).astype("f8") @ np.abs(x["w"]) + np.abs(x["b"])
            return {"y": bounds.product(size, want["y"], u, self.terms)}
        return {"y": 2 * u * (np.abs(x["x"]).astype("f8") + np.abs(x["b"]))}
