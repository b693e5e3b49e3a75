"""Multiply-adds in registers. Ten chains reach the peak; one chain is a delay of known length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kernels.errors import UsageError
from kernels.problem import Operand, Problem, axis

if TYPE_CHECKING:
    from kernels.problem import Array, Arrays

# Floats in a register, and the flags that name exactly this instruction set to gcc and clang. Of cuda, the
# threads of the one block that a multiprocessor runs: fma.cu says why so many.
ISA = {
    "sse": (4, ("-march=x86-64-v2",)),
    "avx": (8, ("-march=x86-64-v2", "-mavx")),
    "avx2": (8, ("-march=x86-64-v3",)),
    "avx512": (16, ("-march=x86-64-v4",)),
    "native": (4, ()),
    "cuda": (512, ()),
}
CHAINS = 10  # latency 4, two a cycle: eight would just do


@dataclass(frozen=True)
class Fma(Problem):
    """`steps` times x ← x/2 + d, in every lane of each chain. x carries over from launch to launch."""

    op: ClassVar[str] = "fma"

    isa: str = axis("instruction set", choices=tuple(ISA))
    steps: int = axis("multiply-adds in each chain", 16384, low=1)
    chains: int = axis("independent chains: 10 for the peak, 1 for a delay", CHAINS, low=1)
    processors: int = axis("multiprocessors at work, of cuda", 1, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chains not in (1, CHAINS):
            raise UsageError(f"--chains {self.chains}: there are 1 and {CHAINS}")
        if self.processors != 1 and self.isa != "cuda":
            raise UsageError(f"--processors {self.processors}: --isa {self.isa} has 1, only cuda more")

    @property
    def lanes(self) -> int:
        """Floats in a register, or CUDA threads in all: each has its own chains."""
        return ISA[self.isa][0] * self.processors

    @property
    def flops(self) -> float:
        return 2.0 * self.steps * self.chains * self.lanes

    @property
    def bytes(self) -> float:
        return 12.0 * self.chains * self.lanes

    def operands(self) -> tuple[Operand, ...]:
        return (Operand("d", (1, self.lanes), "in"), Operand("x", (self.chains, self.lanes), "inout"))

    def reference(self, x: Arrays) -> dict[str, Array]:
        fixed = 2.0 * x["d"].astype("f8")
        start: Array = x["x"].astype("f8")
        return {"x": fixed + (start - fixed) * 0.5 ** float(min(self.steps, 1000))}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        import numpy as np

        scale = np.abs(x["x"]) + 2 * np.abs(x["d"])
        return {"x": 4 * u * scale + np.zeros_like(want["x"])}
