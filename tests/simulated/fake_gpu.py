"""All that the rows of device "cuda" reach, in the place of what is not here: `install(patch, fake)`.

cuBLAS and cuBLASLt compute in NumPy; CuPy's binding and scikit-cuda reach the same. Kernels of a cubin, by
the driver or by PyCUDA, go through the CPU. PyTorch computes on the CPU, in the fake's memory and order.
"""

from __future__ import annotations

import importlib
import os
import sys
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import nvcc
from kernels.libs import cublas, cuda, cudnn, cudnn_frontend, driver, pycuda, skcuda
from kernels.ops.gemm import fastest
from tests.simulated import (
    fake_cublas,
    fake_cublaslt,
    fake_cudnn,
    fake_cufft,
    fake_cusparse,
    fake_frontend,
    fake_tensors,
)
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import HANDLE, STREAM
from tests.simulated.fake_driver import FakeDriver, FakePycuda


def install(patch: pytest.MonkeyPatch, fake: FakeCupy, folder: Path) -> None:
    """Until the patch is undone. `folder` takes the cubins."""

    def cubin(source: Path, arch: str) -> Path:
        made = folder / f"{source.stem}-{arch}.cubin"
        made.write_text(source.read_text("utf-8"), "utf-8")
        return made

    blas = Spacious(enqueue=fake.by_library, reach=fake.reach)
    offers = ((21, 4096, 0, 0.5), (33, 0, 0, 0.75), (7, 0, 0, 1.25), (66, 32 << 20, 0, 3.0))
    libraries = {
        "cublas": blas,
        "cudnn": fake_cudnn.Library(enqueue=fake.by_library, reach=fake.reach),
        "cufft": fake_cufft.Library(enqueue=fake.by_library, reach=fake.reach),
        "cusparse": fake_cusparse.Library(enqueue=fake.by_library, reach=fake.reach),
        "cublasLt": fake_cublaslt.Library(offers=offers, enqueue=fake.by_library, reach=fake.reach, refused=(33,)),
    }
    scikit = Scikit(fake)
    low = FakeDriver(fake)
    patch.setattr(nvcc, "missing", lambda: None)
    patch.setattr(nvcc, "cubin", cubin)
    patch.setattr(cuda, "load", libraries.__getitem__)
    patch.setattr(cudnn, "load", lambda: libraries["cudnn"])
    front = fake_frontend.module(enqueue=fake.by_library, reach=fake.reach)
    patch.setattr(cudnn_frontend, "load", lambda: front)
    patch.setattr(driver, "api", lambda: low)
    parts = {"cublas": scikit, "cufft": ScikitTransforms(libraries["cufft"])}
    patch.setattr(skcuda, "load", lambda part="cublas": parts[part])
    patch.setattr(fastest, "WARM", 0.0)  # one turn: its clock is always the same
    side = FakePycuda(fake)
    patch.setattr(pycuda, "load", lambda: side)
    patch.setattr(pycuda, "ctypes", SimpleNamespace(CDLL=lambda name: side, byref=byref))
    patch.setitem(sys.modules, "cupy_backends.cuda.libs.cublas", Binding(fake))
    fake_tensors.install(patch, fake)
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        numba: Any = importlib.import_module("numba.cuda")
        patch.setattr(numba, "external_stream", _ours, raising=False)
        arrays: Any = importlib.import_module("numba.cuda.simulator.cudadrv.devicearray")
        patch.setattr(numba, "as_cuda_array", lambda x: arrays.FakeCUDAArray(x.host), raising=False)


def _ours(place: int) -> int:
    """In the place of Numba's stream: its simulator has none, and does everything at once."""
    assert place == STREAM
    return 0


class Spacious(fake_cublas.Library):
    """Takes a workspace only of the whole size and in the device's memory, and works in no other: it would allocate
    one, which a capture forbids."""

    def cublasSetWorkspace_v2(self, handle: Any, workspace: Any, size: Any) -> int:
        self.reach(workspace.value, size.value)
        assert size.value >= cublas.WORKSPACE
        return super().cublasSetWorkspace_v2(handle, workspace, size)

    def run(self, step: Any) -> None:
        assert self.workspace is not None
        super().run(step)


def _given(handle: Any, flags: Any, mnk: Any) -> tuple[Any, ...]:
    return (c_void_p(handle), *map(c_int, (*flags, *mnk)))


class Binding:
    """CuPy's of cuBLAS, whose factors are addresses. It sets the current stream at each call."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.blas = fake, fake_cublas.Library(enqueue=fake.by_library, reach=fake.reach)

    def _begin(self, handle: int) -> None:
        assert handle == HANDLE
        assert self.fake.stream.captured is None, "it asks for the stream's state: the capture fails"
        self.blas.stream = STREAM if self.fake.stream.current else 0

    def sgemm(
        self,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        lda: int,
        B: int,
        ldb: int,
        beta: int,
        C: int,
        ldc: int,
    ) -> None:
        self._begin(handle)
        self.blas.cublasSgemm_v2(
            *_given(handle, (transa, transb), (m, n, k)),
            byref(c_float.from_address(alpha)),
            c_void_p(A),
            c_int(lda),
            c_void_p(B),
            c_int(ldb),
            byref(c_float.from_address(beta)),
            c_void_p(C),
            c_int(ldc),
        )

    def gemmEx(
        self,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        A: int,
        Atype: int,
        lda: int,
        B: int,
        Btype: int,
        ldb: int,
        beta: int,
        C: int,
        Ctype: int,
        ldc: int,
        computeType: int,
        algo: int,
    ) -> None:
        self._begin(handle)
        self.blas.cublasGemmEx(
            *_given(handle, (transa, transb), (m, n, k)),
            byref(c_float.from_address(alpha)),
            c_void_p(A),
            c_int(Atype),
            c_int(lda),
            c_void_p(B),
            c_int(Btype),
            c_int(ldb),
            byref(c_float.from_address(beta)),
            c_void_p(C),
            c_int(Ctype),
            c_int(ldc),
            c_int(computeType),
            c_int(algo),
        )


class ScikitTransforms:
    """The module `skcuda.cufft`: arrays are addresses, cuFFT allocates what it works in."""

    class cufftError(Exception):
        pass

    def __init__(self, library: fake_cufft.Library) -> None:
        self.library, self.areas = library, dict[int, np.ndarray]()

    def cufftPlanMany(
        self,
        rank: int,
        n: int,
        inembed: int,
        istride: int,
        idist: int,
        onembed: int,
        ostride: int,
        odist: int,
        fft_type: int,
        batch: int,
    ) -> c_int:
        plan, nbytes = c_int(), c_size_t()
        sizes, source, target = ((c_int * 2).from_address(place) for place in (n, inembed, onembed))
        self.library.cufftCreate(byref(plan))
        arguments = (c_int(rank), sizes, source, c_int(istride), c_int(idist), target, c_int(ostride), c_int(odist))
        if self.library.cufftMakePlanMany(plan, *arguments, c_int(fft_type), c_int(batch), byref(nbytes)):
            raise self.cufftError
        area = self.areas[plan.value] = np.zeros(nbytes.value, np.uint8)
        self.library.plans[plan.value].area = area.ctypes.data
        return plan

    def cufftSetStream(self, plan: c_int, stream: int) -> None:
        self.library.cufftSetStream(plan, c_void_p(stream))

    def cufftExecR2C(self, plan: c_int, idata: int, odata: int) -> None:
        if self.library.cufftExecR2C(plan, c_void_p(idata), c_void_p(odata)):
            raise self.cufftError

    def cufftExecC2R(self, plan: c_int, idata: int, odata: int) -> None:
        if self.library.cufftExecC2R(plan, c_void_p(idata), c_void_p(odata)):
            raise self.cufftError

    def cufftDestroy(self, plan: c_int) -> None:
        self.library.cufftDestroy(plan)


class Scikit:
    """The module `skcuda.cublas`: factors and addresses are Python numbers."""

    class cublasError(Exception):
        pass

    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.blas = fake, fake_cublas.Library(enqueue=fake.by_library, reach=fake.reach)

    def cublasCreate(self) -> int:
        self.blas.handles += 1
        return 0x5C

    def cublasGetVersion(self, handle: int) -> int:
        return 130100

    def cublasSetStream(self, handle: int, id: int) -> None:  # noqa: A002
        self.blas.cublasSetStream_v2(c_void_p(handle), c_void_p(id))

    def cublasSgemm(
        self,
        handle: int,
        transa: int,
        transb: int,
        m: int,
        n: int,
        k: int,
        alpha: float,
        A: int,
        lda: int,
        B: int,
        ldb: int,
        beta: float,
        C: int,
        ldc: int,
    ) -> None:
        self.blas.cublasSgemm_v2(
            *_given(handle, (transa, transb), (m, n, k)),
            byref(c_float(alpha)),
            c_void_p(A),
            c_int(lda),
            c_void_p(B),
            c_int(ldb),
            byref(c_float(beta)),
            c_void_p(C),
            c_int(ldc),
        )
