"""Contiguous memory traffic, counted as in STREAM (McCalpin 1995): no write-allocate traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from kernels import moved
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis

SCALE = 3.0


@dataclass(frozen=True)
class Stream(Problem):
    """Traffic over arrays of `size` bytes: read is y = sum(a), copy y = a, triad y = a + 3·b.

    NaN and infinity are copied and added as in IEEE 754.
    """

    op: ClassVar[str] = "stream"

    kind: str = axis("access pattern", choices=("read", "copy", "triad"), shown="word")
    size: int = axis("bytes of each array", low=64, shown="bytes")

    @property
    def count(self) -> int:
        return self.size // 4

    @property
    def flops(self) -> float:
        return {"read": 1.0, "copy": 0.0, "triad": 2.0}[self.kind] * self.count

    @property
    def bytes(self) -> float:
        return {"read": 4.0, "copy": 8.0, "triad": 12.0}[self.kind] * self.count

    @property
    def summed(self) -> int:
        return self.count if self.kind == "read" else 1

    @property
    def graded(self) -> dict[str, int]:
        return {} if self.kind == "read" else {"a": 1, "b": 1}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        if self.kind == "triad":
            return {"a": (math.nan,), "b": (-math.inf,)}
        return {"a": (math.nan,) if self.kind == "read" else moved.SPECIAL}

    def operands(self) -> tuple[Operand, ...]:
        row = (1, self.count)
        inputs = ("a", "b") if self.kind == "triad" else ("a",)
        out = (1, 1) if self.kind == "read" else row
        return (*(Operand(name, row, "in") for name in inputs), Operand("y", out, "out"))

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        if self.kind == "read":
            return super().excerpt(rng)
        return moved.some(self, rng, self.count)

    def reference(self, x: Arrays) -> dict[str, Array]:
        a: Array = x["a"].astype("f8")
        if self.kind == "read":
            return {"y": a.sum(keepdims=True)}
        return {"y": a if self.kind == "copy" else a + SCALE * x["b"]}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        if self.kind == "read":
            return {"y": 16 * u * np.abs(x["a"]).sum(keepdims=True, dtype=np.float64)}
        if self.kind == "copy":
            return super().bound(x, want, u)
        return {"y": 2 * u * (np.abs(x["a"]) + SCALE * np.abs(x["b"]))}
