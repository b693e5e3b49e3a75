"""Transforms of images: ours, SciPy's and NumPy's pocketfft, FFTW, and MKL inside PyTorch; on a GPU cuFFT's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels.libs import cuda, cufft, fftw, pocketfft, skcuda, torch_cuda
from kernels.libs import torch as torch_library
from kernels.ops.fft import gpu, libraries, own
from kernels.ops.fft.problem import Fft
from kernels.variant import Variant

VARIANTS: tuple[Variant[Fft], ...] = (
    Variant("scipy", "cpu", "scipy", libraries.scipy_copied, kernel=pocketfft.scipy_kernel, python=True),
    Variant(
        "numpy",
        "cpu",
        "numpy",
        libraries.numpy_out,
        accepts=libraries.numpy_accepts,
        kernel=pocketfft.numpy_kernel,
        python=True,
    ),
    Variant("pyfftw", "cpu", "pyfftw", libraries.fftw_planned, missing=fftw.missing, kernel=fftw.kernel, python=True),
    Variant(
        "torch",
        "cpu",
        "torch",
        libraries.torch_out,
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
    ),
    Variant("c", "cpu", "suite", own.prepare, accepts=own.accepts),
    Variant("cufft", "cuda", "cufft", gpu.by_cufft, missing=cuda.libraries_missing, kernel=cufft.kernel),
    Variant("skcuda", "cuda", "skcuda", gpu.by_scikit, missing=skcuda.missing, python=True),
    Variant("cupy", "cuda", "cupy", gpu.by_cupy, missing=cuda.missing, kernel=cuda.kernel, python=True),
    Variant(
        "torch-cuda", "cuda", "torch", gpu.by_torch, missing=torch_cuda.missing, kernel=torch_cuda.kernel, python=True
    ),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
