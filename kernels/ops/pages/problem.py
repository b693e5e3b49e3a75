"""Memory that is obtained, cleared or copied into, by its source and page size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Operand, Problem, axis

SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20  # bytes
CHUNK = 4096  # bytes worked on at a time, for any page size; the last cache line of each chunk is left untouched
SUMS = 1 << 24  # sums are reported modulo this, exact in a float32
STRAY = 0.02  # share of the faults that may be extra or missing
FEW = 8  # faults outside the memory: a stack, a counter, a partial page
NEW = ("fresh", "mapped", "default")  # memory that is new at every launch


@dataclass(frozen=True)
class Pages(Problem):
    """Work `what` on `size` bytes of `memory`, which includes page faults if the memory is new."""

    op: ClassVar[str] = "pages"
    probes: ClassVar[tuple[str, ...]] = ("dense", "again")

    # clear: every 4 KiB is written with one value; copy: with values of touched memory of that size; map: nothing
    what: str = axis("operation on the memory", choices=("clear", "copy", "map"))
    # touched: a mapping kept between launches. fresh: a mapping made before the launch and not touched, `pause` seconds
    # after the last one and the bytes `behind` it were released. mapped: mapped and unmapped in the launch. default,
    # keep: malloc and free in the launch, by a heap that maps large blocks anew, or keeps its memory.
    memory: str = axis("origin of the memory", choices=("touched", "fresh", "mapped", "default", "keep"))
    size: int = axis("bytes", low=CHUNK, shown="bytes")
    page: int = axis("page size in bytes: 4096 or 2097152", SMALL_PAGE)
    pause: float = axis("seconds between unmapping memory and mapping it again", 0.0, low=0)
    behind: int = axis("more bytes unmapped with it and touched again before the launch", 0, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page not in (SMALL_PAGE, HUGE_PAGE):
            raise UsageError(f"--page {self.page}: must be {SMALL_PAGE} or {HUGE_PAGE}")
        if self.size % CHUNK:
            raise UsageError(f"--size {self.size}: must be a multiple of {CHUNK}")

    @property
    def chunks(self) -> int:
        return self.size // CHUNK

    @property
    def pages(self) -> int:
        return self.size // self.page

    @property
    def bytes(self) -> float:
        return {"clear": 1.0, "copy": 2.0, "map": 0.0}[self.what] * self.size

    @property
    def footprint(self) -> int:
        """Total bytes, with the memory that the kernel maps itself and padding to align it."""
        room = self.page if self.page > SMALL_PAGE else 0
        return super().footprint + (self.size + self.behind + room) * (2 if self.what == "copy" else 1)

    def operands(self) -> tuple[Operand, ...]:
        """Return y: its first element seeds the written value; it receives the four numbers of `reference`."""
        return (Operand("y", (1, 4), "inout"),)

    def reference(self, x: Arrays) -> dict[str, Array]:
        """Return the sums over chunks of a written and of an untouched byte, then page faults and chunks.

        Untouched bytes are 1 in memory that was marked beforehand, 0 in new memory.
        """
        value, worked = seeded(x["y"]), self.chunks if self.what != "map" else 0
        written = worked * value
        if self.what == "copy":
            written = value * sum(1 + chunk % 13 for chunk in range(worked))
        marked = 0 if self.memory in NEW else worked
        faults = self.pages if self.memory in NEW and worked else 0
        return {"y": np.array([[written % SUMS, marked % SUMS, faults, worked % SUMS]], np.float64)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Allow no error but a few page faults more or less."""
        return {"y": np.array([[0.0, 0.0, FEW + STRAY * float(want["y"][0, 2]), 0.0]])}


def seeded(y: Array) -> int:
    """Return a number 1 … 15 that is hashed from the bits of y's first element."""
    bits = int(np.asarray(y, np.float32).reshape(-1)[:1].view(np.uint32)[0])
    return 1 + (bits * 2654435761 % (1 << 32) >> 16) % 15
