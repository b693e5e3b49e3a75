"""Bindings to a GPU's kernels, and why each is missing here, without importing any."""

from __future__ import annotations

from collections.abc import Callable

from kernels.doctor.part import summary
from kernels.libs import cublas, cublaslt, cuda, cusparse, numba, nvml, pycuda, skcuda, torch_cuda

BINDINGS: dict[str, Callable[[], str | None]] = {
    "CUDA driver": cuda.driver_missing,
    "cuBLAS": cublas.missing,
    "cuBLASLt": cublaslt.missing,
    "cuDNN": cuda.libraries_missing,
    "cuFFT": cuda.libraries_missing,
    "cuSPARSE": cusparse.missing,
    "CuPy": cuda.missing,
    "PyCUDA": pycuda.missing,
    "scikit-cuda": skcuda.missing,
    "Numba for CUDA": lambda: cuda.missing() or numba.missing(),
    "PyTorch for CUDA": torch_cuda.missing,
    "NVML": nvml.missing,
}


def bindings() -> dict[str, str | None]:
    """Return why each binding cannot be used, by its name; None: it can."""
    return {name: _asked(missing) for name, missing in BINDINGS.items()}


def _asked(missing: Callable[[], str | None]) -> str | None:
    try:
        return missing()
    except Exception as error:  # a damaged package raises anything
        return summary(error)
