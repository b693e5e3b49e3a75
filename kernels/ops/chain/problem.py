"""A chain of element-wise kernels, some of which run in another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernels import moved
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.moved import LENGTH
from kernels.problem import Array, Arrays, axis

KEPT = 63 / 64  # factor of a number in each kernel, which adds 1 − KEPT; as in chain.c
MOST = 64  # kernels: in longer chains rounding would hide a missing kernel


@dataclass(frozen=True)
class Chain(moved.Moved):
    """Chain from x to y of `links` kernels v ← 63/64 v + 1/64, each over the whole vector.

    Another process, which receives the vector and returns it, runs `elsewhere` of them, evenly spread.
    Raises UsageError.
    """

    op: ClassVar[str] = "chain"

    size: int = axis("bytes of the vector", low=LENGTH, shown="bytes")
    links: int = axis("kernels in the chain", 16, low=1)
    elsewhere: int = axis("kernels of the chain that run in another process", 0, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size % LENGTH:
            raise UsageError(f"--size {self.size}: must be a multiple of {LENGTH}")
        if self.links > MOST:
            raise UsageError(f"--links {self.links}: must be at most {MOST}")
        if self.elsewhere > self.links:
            raise UsageError(f"--elsewhere {self.elsewhere}: must not exceed --links {self.links}")

    @property
    def flops(self) -> float:
        return 2.0 * self.count * self.links

    @property
    def bytes(self) -> float:
        """Bytes moved: each kernel reads and writes the vector."""
        return 2.0 * self.size * self.links

    def reference(self, x: Arrays) -> dict[str, Array]:
        share = KEPT**self.links
        return {"y": share * x["x"].astype("f8") + (1 - share)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound two roundings a kernel, each of at most |x| + 1."""
        return {"y": 2 * self.links * u * (np.abs(x["x"].astype("f8")) + 1)}
