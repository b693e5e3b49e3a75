"""Operands between protected pages: an access past either end is a crash reported as such."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import build
from kernels.errors import SuiteError

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Array, Problem

SOURCE = Path(__file__).with_name("fence.c")
MOST = 16 << 20  # bytes of all operands of a problem that is fenced: pages are touched afresh for each check
BEYOND = -2  # in the cell that names the case under way: the process dies of an access beyond an operand
NO_ACCESS = 0


def fits(device: Device, problem: Problem) -> bool:
    """Report whether the problem's operands can be fenced here.

    This needs a processor whose launches run in this process, a compiler, and operands cheap to map."""
    if not device.kind.compiled or device.kind.scripted or problem.footprint > MOST:
        return False
    try:
        build.load(SOURCE)
    except SuiteError:
        return False
    return True


class Stretch:
    """Pages for so many bytes, and an inaccessible page on either side."""

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
                raise MemoryError("no page can be protected")


@contextmanager
def watched(stretches: Sequence[Stretch], cell: int) -> Iterator[None]:
    """Write BEYOND to the cell on an access to a fence, before the crash; without fences do nothing."""
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
