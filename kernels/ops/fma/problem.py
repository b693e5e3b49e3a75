"""Multiply-adds in registers: enough chains reach the peak, one chain measures the latency."""

from __future__ import annotations

import math
import platform
from dataclasses import dataclass
from typing import ClassVar

from kernels.dtypes import BYTES
from kernels.errors import UsageError
from kernels.isa import MARCH
from kernels.lazy import np
from kernels.problem import Array, Arrays, Operand, Problem, axis

# Floats in a register, and the flags that select exactly this instruction set in gcc and clang. For cuda, the
# threads of the single block per multiprocessor: fma.cu gives the reason for this number.
ISA = {
    "sse": (4, MARCH["sse4.2"]),
    "avx": (8, MARCH["avx"]),
    "avx2": (8, MARCH["avx2"]),
    "avx512": (16, MARCH["avx512"]),
    "native": (4, ()),
    "avx2fp64": (4, (*MARCH["avx2"], "-DFP64")),
    "avx512fp64": (8, (*MARCH["avx512"], "-DFP64")),
    "avx512fp16": (32, (*MARCH["avx512"], "-mavx512fp16")),
    "cuda": (512, ()),
}
NUMBERS = {"avx512fp16": "fp16", "avx2fp64": "fp64", "avx512fp64": "fp64"}  # types of sets that are not of fp32
CHAINS = 10  # on x86, latency 4 and two a cycle need at least 8
# Chains that reach the peak on all processors: 16 for four multiply-adds a cycle of latency 4 (Neoverse V1), if they
# and two constants fit in registers, else as many as fit.
PEAK = {"sse": 14, "avx": 14, "avx2": 14, "avx512": 16, "native": 16, "avx512fp16": 16, "cuda": CHAINS}
PEAK |= {"avx2fp64": PEAK["avx2"], "avx512fp64": PEAK["avx512"]}
NOTHING, BEFORE = "none", ("sse", "avx", "avx2", "avx512")
PASSES, LEAST = 64, 1024  # slices per thread, which other threads take from a late one; least steps of a slice


@dataclass(frozen=True)
class Fma(Problem):
    """Multiply-adds x ← x/2 + d, `steps` times in every lane of each chain; x stays between launches."""

    op: ClassVar[str] = "fma"

    isa: str = axis("instruction set", choices=tuple(ISA))
    steps: int = axis("multiply-adds in each chain", 16384, low=1)
    chains: int = axis("independent chains: 10 or more for peak rate, 1 for latency", CHAINS, low=1)
    processors: int = axis("multiprocessors (cuda) or cores, one thread each", 1, low=1)
    after: str = axis("instructions executed just before, untimed", NOTHING, choices=(NOTHING, *BEFORE))

    def __post_init__(self) -> None:
        super().__post_init__()
        there = tuple(dict.fromkeys((1, CHAINS, PEAK[self.isa])))
        if self.chains not in there:
            raise UsageError(f"--chains {self.chains}: for --isa {self.isa} choose from {', '.join(map(str, there))}")
        if self.processors != 1 and self.chains != PEAK[self.isa]:
            raise UsageError(f"--processors {self.processors}: several require --chains {PEAK[self.isa]}")
        if self.processors != 1 and self.after != NOTHING:
            raise UsageError(f"--processors {self.processors}: --after requires a single core: --after {NOTHING}")

    @property
    def lanes(self) -> int:
        """SIMD lanes of all threads, or the number of CUDA threads: each lane has separate chains."""
        return ISA[self.isa][0] * self.processors

    @property
    def flops(self) -> float:
        return 2.0 * self.steps * self.chains * self.lanes

    @property
    def precision(self) -> str:
        return "fp32" if self.dtype == "fp64" else self.dtype  # a check reads float64 as float32

    @property
    def dtype(self) -> str:
        """Type of the numbers."""
        return NUMBERS.get(self.isa, "fp32")

    @property
    def slice(self) -> int:
        """Steps of one slice; each of several threads has `passes` slices.

        After LEAST steps x no longer changes, so that slices may be executed by any thread.
        """
        return self.steps // self.passes

    @property
    def passes(self) -> int:
        parts = math.gcd(self.steps, PASSES)
        return parts if self.steps >= LEAST * parts else 1

    @property
    def bytes(self) -> float:
        return 3.0 * BYTES[self.dtype] * self.chains * self.lanes

    def operands(self) -> tuple[Operand, ...]:
        kind = self.dtype
        return (Operand("d", (1, self.lanes), "in", kind), Operand("x", (self.chains, self.lanes), "inout", kind))

    def reference(self, x: Arrays) -> dict[str, Array]:
        fixed = 2.0 * x["d"].astype("f8")
        start: Array = x["x"].astype("f8")
        return {"x": fixed + (start - fixed) * 0.5 ** float(min(self._halvings, 1000))}

    @property
    def _halvings(self) -> int:
        """Halvings of x in `steps`; on aarch64 one per two steps, x − x/2 and x + d (see fma.c)."""
        in_pairs = self.isa != "cuda" and platform.machine() == "aarch64"
        return self.steps - self.steps // 2 if in_pairs else self.steps

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        scale = np.abs(x["x"]) + 2 * np.abs(x["d"])
        return {"x": 4 * u * scale + np.zeros_like(want["x"])}
