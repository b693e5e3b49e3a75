"""A walk along a random cycle through all cache lines of a working set; one use is one load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Operand, Problem, axis

LINE = 64  # bytes
SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20  # bytes
STOPS = 16  # points of the walk whose lines are reported
FEWEST, MOST = 1 << 14, 1 << 16  # least and most loads in a launch
EXACT = 1 << 24  # a float32 holds every line number below it
ODD, MASK32 = 2654435761, (1 << 32) - 1
ROUNDS = ((0x9E3779B1, 0x7F4A7C15), (0x85EBCA6B, 0x165667B1), (0xC2B2AE35, 0x27D4EB2F))


@dataclass(frozen=True)
class Chase(Problem):
    """Dependent loads: each line holds the next line's address; y seeds the start and gets lines reached.

    A launch has 2^14 to 2^16 loads, several turns of a small set. A set that a cache may hold is read once
    before a sample, so that the cache is in the state after a long walk.
    """

    op: ClassVar[str] = "chase"
    probes: ClassVar[tuple[str, ...]] = ("dense", "again")

    working_set: int = axis("total bytes", low=1024, shown="bytes")
    page: int = axis("page size in bytes: 4096 or 2097152", SMALL_PAGE, shown="bytes")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page not in (SMALL_PAGE, HUGE_PAGE):
            raise UsageError(f"--page {self.page}: must be {SMALL_PAGE} or {HUGE_PAGE}")
        if self.working_set % LINE:
            raise UsageError(f"--working-set {self.working_set}: must be a multiple of {LINE}")

    @property
    def lines(self) -> int:
        return self.working_set // LINE

    @property
    def steps(self) -> int:
        """Loads in a launch, such that the distance between stops is no multiple of the cycle's length."""
        every = -(-min(max(self.lines, FEWEST), MOST) // STOPS)
        return STOPS * (every + (every % self.lines == 0))

    @property
    def bytes(self) -> float:
        """Bytes of one load: the line that it fetches."""
        return float(LINE)

    @property
    def footprint(self) -> int:
        """Total bytes, with the pages that the kernel maps itself."""
        return super().footprint + -(-self.working_set // self.page) * self.page + self.page

    def operands(self) -> tuple[Operand, ...]:
        return (Operand("y", (1, STOPS), "inout"),)

    def reference(self, x: Arrays) -> dict[str, Array]:
        """Return the line reached after each sixteenth of the loads."""
        bits = int(np.asarray(x["y"], np.float32).reshape(-1)[:1].view(np.uint32)[0])
        first = (bits * ODD & MASK32) * self.lines >> 32
        every = self.steps // STOPS
        stops = [place((first + every * i) % self.lines, self.lines) % EXACT for i in range(1, STOPS + 1)]
        return {"y": np.array([stops], np.float64)}


def place(i: int, lines: int) -> int:
    """Return the line at position i of the cycle.

    The cycle is a bijective scramble of 0 … 2^b − 1, 2^b ≥ `lines`, applied again while its result is ≥ `lines`.
    """
    bits = max(1, (lines - 1).bit_length())
    mask, shift = (1 << bits) - 1, bits // 2 + 1
    while True:
        for factor, more in ROUNDS:
            i = (i * factor + more) & mask
            i ^= i >> shift
        if i < lines:
            return i
