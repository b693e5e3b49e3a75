"""Prefixes of environment variables that change how libraries behave."""

from __future__ import annotations

import os
from collections.abc import Mapping

MALLOC = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "TCMALLOC_", "MIMALLOC_")
LIBRARIES = (
    "OPENBLAS_",
    "GOTO_",
    "MKL_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "BLIS_",
    "NPY_",
    "NUMBA_",
    "ONEDNN_",
    "DNNL_",
    "ATEN_",
)
# A GPU's arithmetic of products (CUBLAS_EMULATE_SINGLE_PRECISION, TF32), and loading and launching of kernels.
GPU = (
    "CUBLAS_",
    "CUBLASLT_",
    "CUDNN_",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUPY_TF32",
    "CUPY_ACCELERATORS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
)
TUNING = LIBRARIES + GPU
STEERING = MALLOC + TUNING


def variables(prefixes: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the set environment variables whose names begin with one of `prefixes`."""
    return {key: environment[key] for key in sorted(environment) if key.startswith(prefixes)}
