"""Operands of one problem for its check, each between guards, outside the arenas of measurements.

Fenced operands lie between protected pages: an access past either end is a crash, reported as such."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.dtypes import BYTES
from kernels.errors import SuiteError, WrongResult
from kernels.problem import Operand
from micro.worker.placement import lines

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Array, Problem

SOURCE = Path(__file__).with_name("fence.c")
MOST = 16 << 20  # most bytes of a fenced problem's operands, as each check maps and touches fresh pages
BEYOND = -2  # in the cell of the case under way: the process died of an access beyond an operand
NO_ACCESS = 0
GUARD = 4  # least units of alignment in a guard
LONGEST, LONGEST_ALONE = 1 << 20, 1 << 16  # most bytes of a guard, of several rows and of a single row
MARK = 0xA5  # in every byte before any write
# Bytes repeated in a guard: a NaN of the operand's type, with a payload that other NaN lack; for integers a large
# negative number, which is no valid index. No byte is 0x80, as int8 is put as −127 to 127.
PATTERNS = {
    "fp64": b"\xa5\xa5\xa5\xa5\xa5\xc5\xf8\x7f",
    "fp32": b"\xa5\xa5\xc5\x7f",
    "tf32": b"\xa5\xa5\xc5\x7f",
    "bf16": b"\xe5\x7f",
    "fp16": b"\xa5\x7e",
    "int8": b"\x81",
    "int32": b"\x81\x81\x81\x81",
    "int64": b"\x81\x81\x81\x81\x81\x81\x81\x81",
}


def reach(x: Operand, unit: int) -> int:
    """Return a guard's size, in units of alignment: more than a row of its operand, up to a limit."""
    most = LONGEST if len(x.shape) > 1 and x.shape[0] > 1 else LONGEST_ALONE
    return max(GUARD, lines(min(x.ld * BYTES[x.dtype], most), unit) + 1)


@dataclass(frozen=True)
class Guard:
    """Bytes that belong to no operand: an int8 view of them, and the values that they must keep."""

    view: Any
    values: Array


@functools.lru_cache(maxsize=16)
def _values(pattern: bytes, shape: tuple[int, ...]) -> Array:
    """Return an array of this shape filled with the repeated pattern, as float32."""
    import numpy as np

    return np.resize(np.frombuffer(pattern, np.int8).astype(np.float32), shape)


class Bench:
    """Operands of a problem side by side in one block of device memory, with guards between them."""

    def __init__(self, device: Device, problem: Problem) -> None:
        unit, operands = device.kind.alignment, problem.operands()
        reaches = [reach(x, unit) for x in operands]
        sizes = [lines(x.nbytes, unit) for x in operands]
        ends = [sum(sizes[:i] + reaches[:i] * 2) * unit for i in range(len(operands) + 1)]
        # Each operand has a separate guard on either side.
        offsets = [end + reach * unit for end, reach in zip(ends, reaches, strict=False)]
        self.block = device.allocate(ends[-1])
        self.block[:] = MARK
        self._lay(device, problem, [(self.block, offset) for offset in offsets])
        self._guard([(self.block, at, stop) for at, stop in itertools.pairwise(ends)])

    def _lay(self, device: Device, problem: Problem, places: Sequence[tuple[Any, int]]) -> None:
        """Place the operands, each at its (block, offset)."""
        self.device, self.problem = device, problem
        self._places = list(zip(places, problem.operands(), strict=True))
        self.views = self.at(0)
        self._point()

    def _guard(self, rooms: Sequence[tuple[Any, int, int]]) -> None:
        """Guard each operand's room except its elements. `rooms`: block, first and end offset of each."""
        self.guards: list[Guard] = []
        for ((_, offset), x), (block, first, stop) in zip(self._places, rooms, strict=True):
            for start, end in ((first, offset), (offset + x.nbytes, stop)):
                if end > start:
                    self._add(block, start, Operand("guard", (end - start,), "in", "int8"), x)
            if x.pad:
                row, pad = (n * BYTES[x.dtype] for n in (x.shape[-1], x.pad))
                between = replace(x, shape=(*x.shape[:-1], pad), pad=row, dtype="int8")
                self._add(block, offset + row, between, x)
        self.mark()

    def _add(self, block: Any, offset: int, guard: Operand, x: Operand) -> None:
        self.guards.append(Guard(self.device.view(block, offset, guard), _values(PATTERNS[x.dtype], guard.shape)))

    def mark(self, harmless: bool = False) -> None:
        """Write all guards: their patterns, or zeros if `harmless`."""
        for guard in self.guards:
            self.device.put(guard.view, 0 * guard.values if harmless else guard.values)

    def _point(self) -> None:
        """Write valid indices, for a kernel that is launched before `load`."""
        import numpy as np

        for operand, view in zip(self.problem.operands(), self.views, strict=True):
            if operand.below:
                self.device.put(view, self.problem.indices(operand, np.random.default_rng(0)))

    def at(self, shift: int) -> list[Any]:
        """Return views of the operands, shifted by `shift` bytes into the guards."""
        return [self.device.view(block, offset + shift, x) for (block, offset), x in self._places]

    def load(self, x: dict[str, Array]) -> None:
        """Write the inputs, and fill the outputs with NaN."""
        import numpy as np

        for operand, view in zip(self.problem.operands(), self.views, strict=True):
            self.device.put(view, x[operand.name] if operand.role != "out" else np.full(1, np.nan, "f4"))

    def answer(self) -> dict[str, Array]:
        """Wait for the device and return the outputs by name, as host arrays."""
        self.device.sync()
        written = zip(self.problem.operands(), self.views, strict=True)
        return {operand.name: self.device.get(view) for operand, view in written if operand.role != "in"}

    def refuse_strays(self, x: dict[str, Array]) -> None:
        """Raise WrongResult if the kernel wrote to its inputs or beyond its operands."""
        import numpy as np

        if not all((self.device.get(guard.view) == guard.values).all() for guard in self.guards):
            raise WrongResult("writes outside its operands")
        for operand, view in zip(self.problem.operands(), self.views, strict=True):
            if operand.role != "in":
                continue
            now, then = self.device.get(view), x[operand.name]
            if not np.array_equal(now, then) and not np.array_equal(now, then, equal_nan=True):
                raise WrongResult(f"changes its input {operand.name}")


def fits(device: Device, problem: Problem) -> bool:
    """Report whether the problem's operands can be fenced here.

    This needs a CPU device, not a simulated one, a compiler, and operands of at most MOST bytes."""
    if not device.kind.compiled or device.kind.scripted or problem.footprint > MOST:
        return False
    try:
        build.load(SOURCE)
    except SuiteError:
        return False
    return True


class Stretch:
    """Mapped pages for `nbytes` bytes, between two inaccessible pages."""

    def __init__(self, nbytes: int) -> None:
        import numpy as np

        page = mmap.PAGESIZE
        room = -(-max(nbytes, 1) // page) * page
        self._mapped = mmap.mmap(-1, room + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages: Array = np.frombuffer(self._mapped, np.uint8)
        self.inner = pages[page : page + room]
        self.low = int(pages.ctypes.data)
        self.high = self.low + pages.size
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for address in (self.low, self.high - page):
            if protect(ctypes.c_void_p(address), ctypes.c_size_t(page), NO_ACCESS):
                raise MemoryError("guard pages cannot be protected")


class Fenced(Bench):
    """Operands in separate pages between two protected pages.

    Each operand ends at the page behind it, up to alignment, if `behind`; else it starts at the page before it."""

    def __init__(self, device: Device, problem: Problem, stretches: Sequence[Stretch], behind: bool) -> None:
        unit, operands = device.kind.alignment, problem.operands()
        pairs = list(zip(stretches, operands, strict=True))
        offsets = [(stretch.inner.size - x.nbytes) // unit * unit if behind else 0 for stretch, x in pairs]
        self._lay(
            device, problem, [(stretch.inner, offset) for stretch, offset in zip(stretches, offsets, strict=True)]
        )
        self._guard([(stretch.inner, 0, stretch.inner.size) for stretch in stretches])


@contextmanager
def watched(stretches: Sequence[Stretch], cell: int) -> Iterator[None]:
    """Make an access to a fence write BEYOND to the cell before the crash; no effect without fences."""
    import numpy as np

    if not stretches or not cell:
        yield
        return
    library = build.load(SOURCE)
    low, high = (np.array([getattr(x, end) for x in stretches], np.int64) for end in ("low", "high"))
    count, pointer = ctypes.c_int64(len(stretches)), ctypes.c_void_p
    library.fence_watch(pointer(low.ctypes.data), pointer(high.ctypes.data), count, pointer(cell), BEYOND)
    try:
        yield
    finally:
        library.fence_leave()
