"""Repeated products of one small tile, without loads between: the peak of matrix units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from kernels.dtypes import BYTES
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Operand, Problem, axis

# Rows and columns of c on a multiprocessor: mma.sync by eight warps of 32 × 32, each with eight tiles of 16 × 8;
# wgmma by two warpgroups of 64 × 256. On a processor's core, the tile that mma.c keeps in registers.
TILES = {
    "mma": (8 * 32, 32),
    "wgmma": (2 * 64, 256),
    "avx512bf16": (4 * 16, 4),
    "avx512vnni": (4 * 16, 4),
    "avxvnni": (6 * 8, 2),
    "amxbf16": (2 * 16, 2 * 16),
    "amxint8": (2 * 16, 2 * 16),
}
# Bytes of a row of a and of b, in any type: the depth (k) of one instruction
ROW = {"mma": 32, "wgmma": 32, "avx512bf16": 4, "avx512vnni": 4, "avxvnni": 4, "amxbf16": 64, "amxint8": 64}
GPU = ("mma", "wgmma")
CORE = {"bf16": ("avx512bf16", "amxbf16"), "int8": ("avxvnni", "avx512vnni", "amxint8")}
UNSIGNED = ("avx512vnni", "avxvnni")  # units whose operand a is unsigned
BITS = {"tf32": 11, "bf16": 8, "fp16": 11, "int8": 7}  # bits of a significand, with the leading 1
EXACT = 2**24  # integers up to here, and their sums, are exact in float32 in any rounding
EXACT_INT32 = 2**31 - 1  # … and in int32
UNIT = 2.0**-23  # largest loss of a truncation, relative to the largest addend (1 ulp)


@dataclass(frozen=True)
class Mma(Problem):
    """Accumulation c = steps · a·bᵀ from zero, in float32 (int8: in int32); rows of c share b, not a.

    Three probes check it. "whole" (small integers, full rows) and "bits" (every bit of a's type in use, one nonzero in
    a row of b) keep sums within 2²⁴, so that nothing is rounded and extra steps or a coarser type are detected.
    "dense" has normal numbers; `bound` gives the error of a correct unit.
    """

    op: ClassVar[str] = "mma"
    probes: ClassVar[tuple[str, ...]] = ("dense", "whole", "bits")

    dtype: str = axis("element type of a and b", choices=("tf32", "bf16", "fp16", "int8"))
    unit: str = axis("mma: mma.sync of a warp; wgmma: of a Hopper warpgroup; others: CPU units", choices=tuple(TILES))
    steps: int = axis("products per element of c", 8192, low=1)
    processors: int = axis("multiprocessors, or cores with one thread each", 1, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.unit in CORE.get(self.dtype, ()) or (self.unit in GPU and self.dtype != "int8")):
            raise UsageError(f"--unit {self.unit}: does not support --dtype {self.dtype}")
        if self.depth * self.steps >= EXACT:
            raise UsageError(f"--steps {self.steps}: must be less than {EXACT // self.depth}")

    @property
    def depth(self) -> int:
        """Products that one instruction adds to an element of c (its k)."""
        return ROW[self.unit] // BYTES[self.dtype]

    @property
    def rows(self) -> int:
        return TILES[self.unit][0] * self.processors

    @property
    def cols(self) -> int:
        return TILES[self.unit][1]

    @property
    def precision(self) -> str:
        return self.dtype

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.cols * self.depth * self.steps

    def operands(self) -> tuple[Operand, ...]:
        return (
            Operand("a", (self.rows, self.depth), "in", self.dtype, nonnegative=self.unit in UNSIGNED),
            Operand("b", (self.cols, self.depth), "in", self.dtype),
            Operand("c", (self.rows, self.cols), "out", "int32" if self.dtype == "int8" else "fp32"),
        )

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        if probe == "whole":
            most = min(8, math.isqrt(EXACT // (self.depth * self.steps)))
            drawn = {name: rng.integers(-most, most, shape, endpoint=True).astype("f4") for name, shape in self._in}
        elif probe == "bits":
            drawn = self._bits(rng)
        else:
            drawn = super().fill(rng, probe)
        if self.unit in UNSIGNED:
            drawn["a"] = np.abs(drawn["a"])
        return {name: _to_tf32(x) for name, x in drawn.items()} if self.dtype == "tf32" else drawn

    @property
    def _in(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return tuple((x.name, x.shape) for x in self.operands() if x.role == "in")

    def _bits(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draw integers with as many bits of a's type as keep sums exact, and one ±1 in each row of b."""
        (a, of_a), (b, of_b) = self._in
        bits = min(BITS[self.dtype], (EXACT // self.steps).bit_length() - 1)
        size = rng.integers(2 ** (bits - 1), 2**bits, of_a)
        selector = np.zeros(of_b, "f4")
        selector[np.arange(of_b[0]), rng.integers(0, of_b[1], of_b[0])] = rng.choice((-1.0, 1.0), of_b[0])
        return {a: (size * rng.choice((-1, 1), of_a)).astype("f4"), b: selector}

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"c": self.steps * (x["a"].astype("f8") @ x["b"].astype("f8").T)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound truncations of the sums; zero for integers whose sums stay within 2²⁴.

        Products of two 11-bit significands are exact. A tensor core aligns some of them and the accumulator to the
        largest, keeps at least 23 bits behind its leading one, truncates the rest, and truncates the sum (Fasi et al.
        2021, PeerJ CS 7:e330, for V100 to A100; Khattak and Mikaitis 2025, arXiv:2512.07004, to B200). With at least
        four products at a time that is 1.5 · depth truncations a step, each less than a unit of the largest addend,
        at most the accumulator so far, i·|ab|, plus all products. Over the steps the first sums to steps²/2.
        """
        a, b = x["a"].astype("f8"), x["b"].astype("f8")
        products = np.abs(a) @ np.abs(b).T
        integers = all((array == np.rint(array)).all() for array in (a, b))
        if integers and self.steps * products.max() <= (EXACT_INT32 if self.dtype == "int8" else EXACT):
            return {"c": np.zeros_like(want["c"])}
        largest = self.steps * (np.abs(want["c"]) / 2 + products)
        return {"c": 1.5 * self.depth * UNIT * largest}


def _to_tf32(x: Array) -> Array:
    """Round to TF32: ten bits behind the leading one."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
