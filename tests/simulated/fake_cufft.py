"""cuFFT in NumPy behind the names of its C interface: transforms of planes of real numbers on host memory.

Arguments must have the very C types that the header gives them. A call does its work when the stream comes to it, in
the work area that the plan asked for; back, what is read is overwritten, as cuFFT may."""

from __future__ import annotations

from ctypes import c_int, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.simulated.fake_cublas import REF, Enqueue, Reach, anywhere, array, at_once, typed

INVALID_PLAN, INVALID_VALUE = 1, 4
AREA = 1 << 14  # bytes that a plan asks for
SIZES: Any = c_int * 2


@dataclass
class Made:
    """A plan as it was made."""

    kind: int = 0
    lengths: tuple[int, int] = (0, 0)
    count: int = 0
    stream: int | None = None
    area: int = 0
    behind: bool = False  # spectra one behind another


class Library:
    """`status` is what cufftCreate answers, `enqueue` and `reach` as cuBLAS's stand-in has them."""

    def __init__(self, status: int = 0, enqueue: Enqueue = at_once, reach: Reach = anywhere) -> None:
        self.status, self.enqueue, self.reach = status, enqueue, reach
        self.plans: dict[int, Made] = {}
        self.created = 0

    @typed
    def cufftGetVersion(self, version: REF) -> int:
        version._obj.value = 12100
        return 0

    @typed
    def cufftCreate(self, handle: REF) -> int:
        self.created += 1
        handle._obj.value = self.created
        self.plans[self.created] = Made()
        return self.status

    @typed
    def cufftDestroy(self, plan: c_int) -> int:
        del self.plans[plan.value]
        return 0

    @typed
    def cufftSetAutoAllocation(self, plan: c_int, autoAllocate: c_int) -> int:
        assert autoAllocate.value == 0
        return 0

    @typed
    def cufftMakePlanMany(
        self,
        plan: c_int,
        rank: c_int,
        n: SIZES,
        inembed: SIZES,
        istride: c_int,
        idist: c_int,
        onembed: SIZES,
        ostride: c_int,
        odist: c_int,
        type: c_int,  # noqa: A002
        batch: c_int,
        workSize: REF,
    ) -> int:
        down, across = n
        half = across // 2 + 1
        frames = ((down, across), 1, down * across)
        by_frequency, behind = ((down, half), batch.value, 1), ((down, half), 1, down * half)
        told = [
            (tuple(x), step.value, far.value) for x, step, far in ((inembed, istride, idist), (onembed, ostride, odist))
        ]
        inverse = type.value == 0x2C
        images, spectra = reversed(told) if inverse else told
        if rank.value != 2 or images != frames or spectra not in (by_frequency, behind):
            return INVALID_VALUE
        self.plans[plan.value] = Made(type.value, (down, across), batch.value, behind=spectra == behind)
        workSize._obj.value = AREA
        return 0

    @typed
    def cufftSetStream(self, plan: c_int, stream: c_void_p) -> int:
        self.plans[plan.value].stream = stream.value
        return 0

    @typed
    def cufftSetWorkArea(self, plan: c_int, workArea: c_void_p) -> int:
        self.reach(workArea.value or 0, AREA)
        self.plans[plan.value].area = workArea.value or 0
        return 0

    @typed
    def cufftExecR2C(self, plan: c_int, idata: c_void_p, odata: c_void_p) -> int:
        made = self.plans[plan.value]
        if made.kind != 0x2A or not made.area:
            return INVALID_PLAN
        frames, spectra = self._frames(made, idata), self._spectra(made, odata)

        def step() -> None:
            spectra[...] = np.fft.rfft2(frames.astype(np.float64)).transpose(1, 2, 0)

        self.enqueue(step, made.stream)
        return 0

    @typed
    def cufftExecC2R(self, plan: c_int, idata: c_void_p, odata: c_void_p) -> int:
        made = self.plans[plan.value]
        if made.kind != 0x2C or not made.area:
            return INVALID_PLAN
        spectra, frames = self._spectra(made, idata), self._frames(made, odata)

        def step() -> None:
            known = spectra.transpose(2, 0, 1).astype(np.complex128)
            frames[...] = np.fft.irfft2(known, made.lengths, norm="forward")
            spectra[...] = np.nan

        self.enqueue(step, made.stream)
        return 0

    def _frames(self, made: Made, place: c_void_p) -> np.ndarray:
        return self._array(place, np.float32, (made.count, *made.lengths))

    def _spectra(self, made: Made, place: c_void_p) -> np.ndarray:
        down, across = made.lengths
        if made.behind:
            return self._array(place, np.complex64, (made.count, down, across // 2 + 1)).transpose(1, 2, 0)
        return self._array(place, np.complex64, (down, across // 2 + 1, made.count))

    def _array(self, place: c_void_p, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
        return array(self.reach, place, kind, shape)
