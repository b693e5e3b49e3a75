"""One pass over an array that converts its element type, or sets it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from kernels import places
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis

FILL = 1.5
SIGN_AND_FRACTION = 0xBFFFFFFF  # clears an exponent bit of a double's low half, which is no NaN as a float then
KINDS = ("f64-f32", "f32-f32", "f32-bf16", "bf16-f32", "clear", "fill")


@dataclass(frozen=True)
class Cast(Problem):
    """Conversion of x to another type, or a clear (y = 0) or fill (y = 1.5), which read nothing.

    Operands have no 8-byte type: a double is two words of x, as in memory. NaN and infinity are kept.
    """

    op: ClassVar[str] = "cast"

    values: int = axis("elements", low=1)
    convert: str = axis("source and target type", "f64-f32", choices=KINDS)

    @property
    def types(self) -> tuple[str, str] | None:
        """Source and target type; None for a clear or fill."""
        before, _, after = self.convert.partition("-")
        return (before, after) if after else None

    @property
    def precision(self) -> str:
        return "bf16" if self.types and self.types[1] == "bf16" else "fp32"

    @property
    def graded(self) -> dict[str, int]:
        return {} if self.types is None or self.types[0] == "f64" else {"x": 1}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {} if self.types is None or self.types[0] == "f64" else {"x": (math.nan, math.inf)}

    def operands(self) -> tuple[Operand, ...]:
        names = {"f32": "fp32", "bf16": "bf16"}
        if self.types is None:
            return (Operand("y", (1, self.values), "out"),)
        before, after = self.types
        y = Operand("y", (1, self.values), "out", names[after])
        if before == "f64":
            return Operand("x", (1, 2 * self.values), "in"), y
        return Operand("x", (1, self.values), "in", names[before]), y

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        if self.types is None or self.types[0] != "f64":
            return super().fill(rng, probe)
        words = rng.standard_normal(self.values).view(np.uint32)
        words[::2] &= np.uint32(SIGN_AND_FRACTION)
        return {"x": words.view(np.float32)[None]}

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        row, some = places.every((1,))[0], places.elements(rng, self.values)
        words = (2 * some[:, None] + places.every((2,))[0]).ravel()
        double = self.types is not None and self.types[0] == "f64"
        of = {"x": (row, words if double else some), "y": (row, some)}
        return Excerpt(replace(self, values=len(some)), {x.name: of[x.name] for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        if self.types is None:
            return {"y": np.full((1, self.values), FILL if self.convert == "fill" else 0.0)}
        return {"y": doubles(x["x"]).copy() if self.types[0] == "f64" else x["x"].astype("f8")}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        if self.types in (("f64", "f32"), ("f32", "bf16")):
            return {"y": u * np.abs(want["y"]) + 2.0**-126}
        return {"y": np.zeros_like(want["y"])}


def doubles(x: Array) -> Array:
    """Return a float64 view of pairs of 32-bit words."""
    return np.ascontiguousarray(x).view(np.float64)
