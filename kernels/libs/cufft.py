"""cuFFT's 2-D transforms of real numbers through its C interface, in the caller's work area."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda
from kernels.libs.cublas import prepared
from kernels.provider import Provider

R2C, C2R = 0x2A, 0x2C  # cufftType
KERNELS = 4  # most kernels of one call, a guess: rows, columns, transposition
INT, POINTER, SIZE = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
# cufftResult, which no function of the library spells out.
RESULTS = {
    "CUFFT_INVALID_PLAN": 1,
    "CUFFT_ALLOC_FAILED": 2,
    "CUFFT_INVALID_VALUE": 4,
    "CUFFT_INTERNAL_ERROR": 5,
    "CUFFT_EXEC_FAILED": 6,
    "CUFFT_SETUP_FAILED": 7,
    "CUFFT_INVALID_SIZE": 8,
    "CUFFT_INVALID_DEVICE": 11,
    "CUFFT_NO_WORKSPACE": 13,
    "CUFFT_NOT_SUPPORTED": 16,
}
REFUSALS = [RESULTS[f"CUFFT_{word}"] for word in ("ALLOC_FAILED", "INVALID_SIZE", "NOT_SUPPORTED")]


@dataclass(frozen=True)
class Plan:
    """A cuFFT plan of a batch of 2-D frames, forward or inverse, destroyed with the object."""

    api: Any
    number: ctypes.c_int
    inverse: bool
    nbytes: int  # of the work area

    def work_in(self, place: int) -> None:
        """Set the address of the work area of `nbytes` bytes, which plans on one stream may share."""
        check("cufftSetWorkArea", self.api.cufftSetWorkArea(self.number, POINTER(place)))

    def call(self, source: int, target: int) -> Callable[[], None]:
        """Return a call of the transform between two addresses; the inverse overwrites its source."""
        name = "cufftExecC2R" if self.inverse else "cufftExecR2C"
        function = self.api.cufftExecC2R if self.inverse else self.api.cufftExecR2C
        return prepared(function, (self.number, POINTER(source), POINTER(target)), name, check, ())


def layout(lengths: tuple[int, int], count: int, inverse: bool, behind: bool) -> tuple[Any, ...]:
    """Return the arguments of cufftPlanMany after the plan.

    Order: rank, sizes, the source's rows and columns, stride and distance, the target's, type, batch. Frames are
    contiguous, and so are spectra if `behind`; else the numbers of each frequency are contiguous over the batch."""
    down, across = lengths
    sizes, halves = (INT * 2)(down, across), (INT * 2)(down, across // 2 + 1)
    frames = (sizes, INT(1), INT(down * across))
    spectra = (halves, *((INT(1), INT(down * (across // 2 + 1))) if behind else (INT(count), INT(1))))
    source, target = (spectra, frames) if inverse else (frames, spectra)
    return (INT(2), sizes, *source, *target, INT(C2R if inverse else R2C), INT(count))


def plan(
    lengths: tuple[int, int], count: int, inverse: bool, stream: int, library: Any = None, *, behind: bool = False
) -> Plan:
    """Plan `count` frames of `lengths` (rows, columns) by `layout`. Raises LaunchError, Unavailable."""
    api, number, nbytes = library or cuda.load("cufft"), INT(), SIZE()
    if status := api.cufftCreate(ctypes.byref(number)):
        raise Unavailable(f"cufftCreate returned {_status_text(status)}: no usable GPU in this process")
    check("cufftSetAutoAllocation", api.cufftSetAutoAllocation(number, INT(0)))
    answer = api.cufftMakePlanMany(number, *layout(lengths, count, inverse, behind), ctypes.byref(nbytes))
    check("cufftMakePlanMany", answer)
    check("cufftSetStream", api.cufftSetStream(number, POINTER(stream)))
    transform = Plan(api, number, inverse, nbytes.value)
    weakref.finalize(transform, api.cufftDestroy, number).atexit = False  # then the context may be gone
    return transform


def check(name: str, status: int) -> None:
    """Raise Unavailable for an unsupported size or too little memory, LaunchError for other failures."""
    if status:
        raise (Unavailable if status in REFUSALS else LaunchError)(f"{name} returned {_status_text(status)}")


def _status_text(status: int) -> str:
    return f"{status}: {next((name for name, number in RESULTS.items() if number == status), 'unknown')}"


def kernel() -> tuple[str | None, str | None]:
    """Return cuFFT's version, or None if it cannot be read, and no instruction set."""
    number = INT()
    if cuda.load("cufft").cufftGetVersion(ctypes.byref(number)):
        return None, None
    major, rest = divmod(number.value, 1000)
    return f"cuFFT {major}.{rest // 100}.{rest % 100}", None


CUFFT = Provider("cufft", "cuda", cuda.libraries_missing, kernel)
