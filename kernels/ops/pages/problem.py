"""Clearing, copying or merely having memory, by where the memory comes from and by the size of its pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kernels.errors import UsageError
from kernels.problem import Operand, Problem, axis

if TYPE_CHECKING:
    from kernels.problem import Array, Arrays

SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20  # bytes
CHUNK = 4096  # bytes worked on at a time, whatever the pages are; the last line of each is left alone
SUMS = 1 << 24  # sums are told modulo this, which a float32 holds exactly
STRAY = 0.02  # share of the faults that may be others', or missing
FEW = 8  # faults of a stack, a counter, a page begun: not the memory's
NEW = ("fresh", "mapped", "default")  # memory that is new at every launch


@dataclass(frozen=True)
class Pages(Problem):
    """`what` is done with `size` bytes of `memory`.

    clear: every 4 KiB is written with one value; copy: with what as much touched memory holds; map: nothing.
    touched: a mapping kept from launch to launch. fresh: a mapping made before the launch, of which nothing
    was touched, `pause` seconds after the one before was given back, and as many bytes as lie `behind` it.
    mapped: mapped and unmapped within the launch. default, keep: malloc and free within it, under a heap that
    maps and unmaps large blocks, or keeps what it has.
    """

    op: ClassVar[str] = "pages"
    probes: ClassVar[tuple[str, ...]] = ("dense", "again")

    what: str = axis("what is done with the memory", choices=("clear", "copy", "map"))
    memory: str = axis("where it comes from", choices=("touched", "fresh", "mapped", "default", "keep"))
    size: int = axis("bytes", low=CHUNK, shown="bytes")
    page: int = axis("bytes of its pages: 4096, 2097152", SMALL_PAGE)
    pause: float = axis("seconds between giving memory back and mapping it afresh", 0.0, low=0)
    behind: int = axis("bytes given back with it, and touched again before the launch", 0, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page not in (SMALL_PAGE, HUGE_PAGE):
            raise UsageError(f"--page {self.page}: take {SMALL_PAGE} or {HUGE_PAGE}")
        if self.size % CHUNK:
            raise UsageError(f"--size {self.size}: take a multiple of {CHUNK}")

    @property
    def chunks(self) -> int:
        return self.size // CHUNK

    @property
    def pages(self) -> int:
        return self.size // self.page

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def bytes(self) -> float:
        return {"clear": 1.0, "copy": 2.0, "map": 0.0}[self.what] * self.size

    @property
    def footprint(self) -> int:
        """With the memory it maps itself, room to align it included."""
        room = self.page if self.page > SMALL_PAGE else 0
        return super().footprint + (self.size + self.behind + room) * (2 if self.what == "copy" else 1)

    def operands(self) -> tuple[Operand, ...]:
        """y: its first element seeds the value written; it gets four figures, see `reference`."""
        return (Operand("y", (1, 4), "inout"),)

    def reference(self, x: Arrays) -> dict[str, Array]:
        """The sum of a written byte of each chunk, the sum of the bytes left alone (1 in memory that was
        marked before, 0 in new one), page faults, chunks."""
        import numpy as np

        value, worked = seeded(x["y"]), self.chunks if self.what != "map" else 0
        written = worked * value
        if self.what == "copy":
            written = value * sum(1 + chunk % 13 for chunk in range(worked))
        marked = 0 if self.memory in NEW else worked
        faults = self.pages if self.memory in NEW and worked else 0
        return {"y": np.array([[written % SUMS, marked % SUMS, faults, worked % SUMS]], np.float64)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Exact, but for a few faults more or less."""
        import numpy as np

        return {"y": np.array([[0.0, 0.0, FEW + STRAY * float(want["y"][0, 2]), 0.0]])}


def seeded(y: Array) -> int:
    """1 … 15 from the bits of the first element."""
    import numpy as np

    bits = int(np.asarray(y, np.float32).reshape(-1)[:1].view(np.uint32)[0])
    return 1 + (bits * 2654435761 % (1 << 32) >> 16) % 15
