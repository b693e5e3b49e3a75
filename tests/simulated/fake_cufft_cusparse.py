"""cuFFT and cuSPARSE in NumPy: transforms of planes of real numbers, and the product of a CSR matrix and a dense one.

cuFFT works in the work area that the plan asked for, and back it overwrites what it reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.simulated.fake_c import CLibrary, array

INVALID_PLAN, INVALID_VALUE = 1, 4  # cufftResult
PLAN_AREA = 1 << 14  # bytes that a plan asks for
INVALID, NOT_SUPPORTED = 3, 10  # cusparseStatus_t
PRODUCT_AREA = 1 << 13  # bytes that a product asks for
KNOWN = (0, 4, 6, 12)  # cusparseSpMMAlg_t


class Cufft(CLibrary):
    """cuFFT, whose plans are among the things alive."""

    prefix = "cufft"

    def GetVersion(self, x: Any) -> None:
        x.version.value = 12100

    def Create(self, x: Any) -> None:
        self.create(x.handle, kind=0, area=0)

    def SetAutoAllocation(self, x: Any) -> None:
        assert x.autoAllocate == 0

    def MakePlanMany(self, x: Any) -> int:
        down, across = x.n
        half = across // 2 + 1
        frames = ((down, across), 1, down * across)
        by_frequency, behind = ((down, half), x.batch, 1), ((down, half), 1, down * half)
        images, spectra = (tuple(x.inembed), x.istride, x.idist), (tuple(x.onembed), x.ostride, x.odist)
        if x.type == 0x2C:
            images, spectra = spectra, images
        if x.rank != 2 or images != frames or spectra not in (by_frequency, behind):
            return INVALID_VALUE
        plan = self.alive[x.plan]
        plan.kind, plan.lengths, plan.count, plan.behind = x.type, (down, across), x.batch, spectra == behind
        x.workSize.value = PLAN_AREA
        return 0

    def SetWorkArea(self, x: Any) -> None:
        self.reach(x.workArea, PLAN_AREA)
        self.alive[x.plan].area = x.workArea

    def ExecR2C(self, x: Any) -> int:
        plan = self.alive[x.plan]
        if plan.kind != 0x2A or not plan.area:
            return INVALID_PLAN
        frames, spectra = self._frames(plan, x.idata), self._spectra(plan, x.odata)

        def step() -> None:
            spectra[...] = np.fft.rfft2(frames.astype(np.float64)).transpose(1, 2, 0)

        self.enqueue(step, plan.stream)
        return 0

    def ExecC2R(self, x: Any) -> int:
        plan = self.alive[x.plan]
        if plan.kind != 0x2C or not plan.area:
            return INVALID_PLAN
        spectra, frames = self._spectra(plan, x.idata), self._frames(plan, x.odata)

        def step() -> None:
            known = spectra.transpose(2, 0, 1).astype(np.complex128)
            frames[...] = np.fft.irfft2(known, plan.lengths, norm="forward")
            spectra[...] = np.nan

        self.enqueue(step, plan.stream)
        return 0

    def _frames(self, plan: SimpleNamespace, place: int) -> np.ndarray:
        return array(self.reach, place, np.float32, (plan.count, *plan.lengths))

    def _spectra(self, plan: SimpleNamespace, place: int) -> np.ndarray:
        """The spectra by frequency, however they lie."""
        down, half = plan.lengths[0], plan.lengths[1] // 2 + 1
        if plan.behind:
            return array(self.reach, place, np.complex64, (plan.count, down, half)).transpose(1, 2, 0)
        return array(self.reach, place, np.complex64, (down, half, plan.count))


class Cusparse(CLibrary):
    """cuSPARSE; `without`: algorithms that it has no code for."""

    prefix = "cusparse"

    def __init__(self, *how: Any, without: tuple[int, ...] = (), **more: Any) -> None:
        super().__init__(*how, **more)
        self.without = without

    def GetErrorString(self, x: Any) -> bytes:
        return f"status {x.status}".encode()

    def GetProperty(self, x: Any) -> None:
        x.value.value = (12, 6, 3)[x.type]

    def CreateCsr(self, x: Any) -> int:
        if (x.csrRowOffsetsType, x.csrColIndType, x.idxBase, x.valueType) != (2, 2, 0, 0):
            return INVALID
        self.create(
            x.spMatDescr,
            shape=(x.rows, x.cols),
            values=array(self.reach, x.csrValues, np.float32, (x.nnz,)),
            places=array(self.reach, x.csrColInd, np.int32, (x.nnz,)),
            pointers=array(self.reach, x.csrRowOffsets, np.int32, (x.rows + 1,)),
        )
        return 0

    def CreateDnMat(self, x: Any) -> int:
        if (x.ld, x.valueType, x.order) != (x.cols, 0, 2) or not x.values:
            return INVALID
        self.create(x.dnMatDescr, shape=(x.rows, x.cols), address=x.values)
        return 0

    def SpMM_bufferSize(self, x: Any) -> int:
        x.bufferSize.value = PRODUCT_AREA
        return self._refusal(x)

    def SpMM(self, x: Any) -> int:
        if status := self._refusal(x):
            return status
        self.reach(x.externalBuffer, PRODUCT_AREA)
        alpha, beta, sparse = x.alpha.value, x.beta.value, self.alive[x.matA]
        given, answer = (
            array(self.reach, dense.address, np.float32, dense.shape)
            for dense in (self.alive[x.matB], self.alive[x.matC])
        )

        def step() -> None:
            matrix = np.zeros(sparse.shape)
            rows = np.repeat(np.arange(sparse.shape[0]), np.diff(sparse.pointers))
            matrix[rows, sparse.places] = sparse.values
            product = alpha * (matrix @ given.astype(np.float64))
            answer[...] = product + beta * answer if beta else product

        self.enqueue(step, self.alive[x.handle].stream)
        return 0

    def _refusal(self, x: Any) -> int:
        a, b, c = (self.alive[matrix].shape for matrix in (x.matA, x.matB, x.matC))
        fits = a[1] == b[0] and (a[0], b[1]) == c
        if not fits or (x.opA, x.opB, x.computeType) != (0, 0, 0) or x.alg not in KNOWN:
            return INVALID
        return NOT_SUPPORTED if x.alg in self.without else 0
