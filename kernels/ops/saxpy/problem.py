"""A vector update whose operands are warm, flushed line by line, or evicted by other reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from kernels.lazy import np
from kernels.problem import Array, Arrays, Operand, Problem, axis

PASSES = 64  # passes of a launch, all over one pair of vectors or each over a separate pair
# Variants of one loop by vector width: the instruction set, as kernels/ops/fma names it, and floats per vector
WIDTHS = {"scalar": ("sse", 1), "sse": ("sse", 4), "avx2": ("avx2", 8), "avx512": ("avx512", 16)}
SWEEP = 256 << 20  # bytes read to evict the caches: four times the largest last-level cache assumed for a core


@dataclass(frozen=True)
class Saxpy(Problem):
    """Update y = y/2 + x of vectors of `vector` bytes, `PASSES` times; NaN and infinity follow IEEE 754."""

    op: ClassVar[str] = "saxpy"

    vector: int = axis("bytes of each vector", low=64)
    # warm: every pass is over the same x and y. flushed, swept: each pass has another pair, evicted before the launch
    state: str = axis("cache state of the operands", choices=("warm", "flushed", "swept"))

    @property
    def count(self) -> int:
        return self.vector // 4

    @property
    def rows(self) -> int:
        return 1 if self.state == "warm" else PASSES

    @property
    def flops(self) -> float:
        return 2.0 * self.count * PASSES

    @property
    def bytes(self) -> float:
        return 12.0 * self.count * PASSES

    @property
    def footprint(self) -> int:
        """Total bytes, with the memory that is read to evict the caches."""
        return super().footprint + (SWEEP if self.state == "swept" else 0)

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 1, "y": 1}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {"x": (math.nan,), "y": (math.inf,)}

    def operands(self) -> tuple[Operand, ...]:
        shape = (self.rows, self.count)
        return Operand("x", shape, "in"), Operand("y", shape, "inout")

    def reference(self, x: Arrays) -> dict[str, Array]:
        share = 0.5 ** (PASSES // self.rows)
        return {"y": share * x["y"].astype("f8") + 2 * (1 - share) * x["x"]}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound one rounding a pass, of at most |y| + 2 |x|, halved by every later pass."""
        return {"y": 3 * u * (np.abs(x["y"].astype("f8")) + 2 * np.abs(x["x"]))}
