"""Transforms of images: ours, SciPy's and NumPy's pocketfft, FFTW, and MKL inside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernels.libs import fftw, pocketfft
from kernels.libs import torch as torch_library
from kernels.ops.fft import libraries, own
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
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
