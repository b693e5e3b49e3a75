"""Transforms of images: ours, SciPy's and NumPy's pocketfft, FFTW, PyTorch's MKL; on a GPU cuFFT's."""

from __future__ import annotations

from kernels.libs import pocketfft
from kernels.libs.cuda import CUPY
from kernels.libs.cufft import CUFFT
from kernels.libs.fftw import FFTW
from kernels.libs.skcuda import SKCUDA
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.ops.fft import gpu, libraries, native
from kernels.ops.fft.problem import Fft
from kernels.provider import NUMPY, SCIPY, SUITE
from kernels.variant import Variant, row

VARIANTS: tuple[Variant[Fft], ...] = (
    row(SCIPY, "scipy", libraries.scipy_copied, kernel=pocketfft.scipy_kernel),
    row(NUMPY, "numpy", libraries.numpy_out, accepts=libraries.numpy_accepts, kernel=pocketfft.numpy_kernel),
    row(FFTW, "pyfftw", libraries.fftw_planned),
    row(TORCH, "torch", libraries.torch_out),
    row(SUITE, "c", native.prepare, accepts=native.accepts),
    row(CUFFT, "cufft", gpu.by_cufft),
    row(SKCUDA, "skcuda", gpu.by_scikit),
    row(CUPY, "cupy", gpu.by_cupy),
    row(TORCH_CUDA, "torch-cuda", gpu.by_torch),
)
