"""Call overhead: successive calls of a kernel with almost no work, in one launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernels.lazy import np
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Array, Arrays, Operand, Problem, axis

PRODUCT = Gemm(8, 8, 8)  # 1024 operations: tens of nanoseconds
LINE = 16  # elements: one cache line


@dataclass(frozen=True)
class Calls(Problem):
    """Calls of a small kernel: gemm is c = a·b, 8×8 times 8×8, row-major; empty does not change x.

    FLOPs, bytes and seconds are those of one call: a launch serves `chain` uses.
    """

    op: ClassVar[str] = "launch"
    probes: ClassVar[tuple[str, ...]] = Gemm.probes

    kernel: str = axis("function to call", choices=("gemm", "empty"))
    chain: int = axis("calls per launch, looped in the caller's language", low=1)
    clock: str = axis(
        "the caller's clock, or the GPU's between back-to-back kernels", "caller", choices=("caller", "device")
    )

    @property
    def on_host(self) -> bool:
        return self.clock == "caller"

    @property
    def flops(self) -> float:
        return PRODUCT.flops if self.kernel == "gemm" else 0.0

    @property
    def bytes(self) -> float:
        return PRODUCT.bytes if self.kernel == "gemm" else 0.0

    def operands(self) -> tuple[Operand, ...]:
        return PRODUCT.operands() if self.kernel == "gemm" else (Operand("x", (1, LINE), "inout"),)

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        return PRODUCT.fill(rng, probe) if self.kernel == "gemm" else super().fill(rng, probe)

    def reference(self, x: Arrays) -> dict[str, Array]:
        if self.kernel == "gemm":
            return PRODUCT.reference(x)
        return {"x": x["x"].astype("f8")}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        return PRODUCT.bound(x, want, u) if self.kernel == "gemm" else {"x": 0.0 * want["x"]}
