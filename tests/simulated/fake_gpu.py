"""All that the rows of device "cuda" reach, in the place of what is not here: `install(patch, fake)`.

cuBLAS and cuBLASLt compute in NumPy; CuPy's binding and scikit-cuda reach the same. Kernels of a cubin, by
the driver or by PyCUDA, go through the CPU. PyTorch computes on the CPU, in the fake's memory and order.
"""

from __future__ import annotations

import importlib
import os
import sys
from ctypes import byref, c_int, c_size_t
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import nvcc
from kernels.libs import cublas, cuda, cudnn, cudnn_frontend, driver, pycuda, skcuda
from kernels.ops.gemm import fastest
from tests.simulated import fake_cublas, fake_cudnn, fake_cufft_cusparse, fake_frontend, fake_tensors
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import HANDLE, STREAM
from tests.simulated.fake_driver import FakeDriver, FakePycuda


def install(patch: pytest.MonkeyPatch, fake: FakeCupy, folder: Path) -> None:
    """Until the patch is undone. `folder` takes the cubins."""

    def cubin(source: Path, arch: str) -> Path:
        made = folder / f"{source.stem}-{arch}.cubin"
        made.write_text(source.read_text("utf-8"), "utf-8")
        return made

    offers = ((21, 4096, 0, 0.5), (33, 0, 0, 0.75), (7, 0, 0, 1.25), (66, 32 << 20, 0, 3.0))
    how = (fake.by_library, fake.reach)
    libraries = {
        "cublas": Spacious(*how),
        "cublasLt": fake_cublas.CublasLt(*how, offers=offers, refused=(33,)),
        "cudnn": fake_cudnn.Cudnn(*how),
        "cufft": fake_cufft_cusparse.Cufft(*how),
        "cusparse": fake_cufft_cusparse.Cusparse(*how),
    }
    scikit = Scikit(fake_cublas.Cublas(*how))
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


class Spacious(fake_cublas.Cublas):
    """A cuBLAS that takes a workspace only of the full size and in the device's memory, and works in no other."""

    def SetWorkspace_v2(self, x: Any) -> int:
        self.reach(x.workspace, x.workspaceSizeInBytes)
        assert x.workspaceSizeInBytes >= cublas.WORKSPACE
        return super().SetWorkspace_v2(x)

    def run(self, step: Any) -> None:
        assert self.workspace is not None
        super().run(step)


class Binding:
    """CuPy's of cuBLAS, whose factors are addresses. It sets the current stream at each call."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.blas = fake, fake_cublas.Cublas(fake.by_library, fake.reach)

    def sgemm(self, *given: int) -> None:
        self._call("cublasSgemm_v2", *given)

    def gemmEx(self, *given: int) -> None:
        self._call("cublasGemmEx", *given)

    def _call(self, symbol: str, handle: int, *given: int) -> None:
        assert handle == HANDLE
        assert self.fake.stream.captured is None, "it asks for the stream's state: the capture fails"
        self.blas.stream = STREAM if self.fake.stream.current else 0
        self.blas.plain(symbol, handle, *given)


class Scikit:
    """The module `skcuda.cublas`: factors and addresses are Python numbers."""

    class cublasError(Exception):
        pass

    def __init__(self, blas: fake_cublas.Cublas) -> None:
        self.blas = blas

    def cublasCreate(self) -> int:
        self.blas.handles += 1
        return 0x5C

    def cublasGetVersion(self, handle: int) -> int:
        return 130100

    def __getattr__(self, name: str) -> Any:
        symbol = name if name == "cublasSgeam" else f"{name}_v2"
        return lambda *given: self.blas.plain(symbol, *given)


class ScikitTransforms:
    """The module `skcuda.cufft`: arrays are addresses, cuFFT allocates what it works in."""

    class cufftError(Exception):
        pass

    def __init__(self, library: fake_cufft_cusparse.Cufft) -> None:
        self.library, self.areas = library, dict[int, np.ndarray]()

    def cufftPlanMany(self, *given: int) -> c_int:
        plan, nbytes = c_int(), c_size_t()
        places = (1, 2, 5)  # of lengths
        words = [(c_int * 2).from_address(x) if i in places else c_int(x) for i, x in enumerate(given)]
        self.library.cufftCreate(byref(plan))
        if self.library.cufftMakePlanMany(plan, *words, byref(nbytes)):
            raise self.cufftError
        area = self.areas[plan.value] = np.zeros(nbytes.value, np.uint8)
        self.library.alive[plan.value].area = area.ctypes.data
        return plan

    def __getattr__(self, name: str) -> Any:
        def call(plan: c_int, *given: int) -> None:
            if self.library.plain(name, plan.value, *given):
                raise self.cufftError

        return call
