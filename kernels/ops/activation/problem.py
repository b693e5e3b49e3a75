"""Activations: y = f(x) of each element, or dx = dy · f′, with f′ computed from y."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from kernels import places
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis, direction

ULP = 16.0  # allowed error in unit roundoffs: libraries promise at most 4 ULP, half precision errs by 8192
SMALLEST = 2.0**-126  # below it results may be flushed to zero


@dataclass(frozen=True)
class Activation(Problem):
    """Activation y = f(x), or its gradient (dgrad) y = dy · f′, where x is the forward's result.

    In place, y is also the last input. Each element counts as one operation, whatever f: all are bound by traffic.
    sigmoid, tanh and exp of a NaN are NaN; ReLU of a NaN is not checked, as libraries differ there.
    """

    op: ClassVar[str] = "activation"

    count: int = axis("elements", low=1)
    kind: str = axis("activation function", "relu", choices=("relu", "sigmoid", "tanh", "exp"), shown="word")
    phase: str = direction("the activation or its gradient", "forward", "dgrad")
    place: str = axis("output: a separate array (out) or in place (in)", "out", choices=("out", "in"))

    @property
    def flops(self) -> float:
        return float(self.count)

    @property
    def bytes(self) -> float:
        return (8.0 if self.phase == "forward" else 12.0) * self.count

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the operands that are read, in order; in place the last of them is y."""
        names = ("x",) if self.phase == "forward" else ("x", "dy")
        return names if self.place == "out" else (*names[:-1], "y")

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 1} if (self.kind, self.phase, self.place) == ("relu", "forward", "out") else {}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {} if self.kind == "relu" or self.phase != "forward" else {self.sources[-1]: (math.nan,)}

    def operands(self) -> tuple[Operand, ...]:
        row = (1, self.count)
        inputs = tuple(Operand(name, row, "in") for name in self.sources if name != "y")
        return (*inputs, Operand("y", row, "out" if self.place == "out" else "inout"))

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        x = super().fill(rng, probe)
        if self.phase == "dgrad":
            x["x"] = self._function(x["x"].astype("f8")).astype(np.float32)
        return x

    def _function(self, x: Array) -> Array:
        """Return f(x) in float64."""
        if self.kind == "relu":
            return np.maximum(x, 0)
        with np.errstate(over="ignore"):
            if self.kind == "sigmoid":
                return np.asarray(1 / (1 + np.exp(-x)))
            return np.asarray(np.tanh(x) if self.kind == "tanh" else np.exp(x))

    def _slope(self, y: Array) -> Array:
        """Return f′ in float64, computed from y = f(x)."""
        if self.kind == "relu":
            return (y > 0).astype("f8")
        slope: Array = {"sigmoid": y * (1 - y), "tanh": 1 - y * y, "exp": y}[self.kind]
        return slope

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        some = places.elements(rng, self.count)
        return self.excerpt_elements(some, count=len(some))

    def reference(self, x: Arrays) -> dict[str, Array]:
        last = x[self.sources[-1]].astype("f8")
        if self.phase == "forward":
            return {"y": self._function(last)}
        return {"y": self._slope(x["x"].astype("f8")) * last}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        if self.kind == "relu":
            return {"y": np.zeros_like(want["y"])}
        size = np.abs(want["y"])
        if self.phase == "dgrad":  # 1 − y and 1 − y² cancel
            size = size + np.abs(x[self.sources[-1]].astype("f8"))
        with np.errstate(over="ignore", invalid="ignore"):
            return {"y": ULP * u * size + SMALLEST}
