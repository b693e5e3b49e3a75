"""Activations on a CPU (ours, libm, NumPy, PyTorch, Numba) and on a GPU (ours, CuPy, PyTorch)."""

from __future__ import annotations

import platform
from pathlib import Path

from kernels import grid, maths, openmp
from kernels.libs.cuda import CUDA_SUITE, CUPY
from kernels.libs.numba import NUMBA
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.native import structure
from kernels.ops.activation import gpu, libraries
from kernels.ops.activation.problem import Activation
from kernels.provider import NUMPY, SUITE
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("activation.c")
LENGTH, LINE = 4, 16  # bytes of an element; elements of a cache line, which threads do not share
Argument = structure("pointer: x dy y", "int64: count")  # C struct `argument` of activation.c


def _elements(problem: Activation) -> openmp.Axis:
    return openmp.Axis("count", problem.count, dict.fromkeys(("x", "dy", "y"), LENGTH), LINE)


def _scalar(problem: Activation) -> str | None:
    if problem.kind == "relu":
        return "relu does not use the C library"
    return None if problem.phase == "forward" else "gradients do not use the C library"


def _forward(problem: Activation) -> str | None:
    return None if problem.phase == "forward" else "only --phase forward"


def _own_kernel() -> tuple[str | None, str | None]:
    return "polynomials of kernels/maths.c, at most 3 ULP", None


def _libm_kernel() -> tuple[str | None, str | None]:
    return f"{' '.join(platform.libc_ver()) or 'libm'}, one element a call", None


LIBRARY = (DEFAULT, "library")
VARIANTS: tuple[Variant[Activation], ...] = (
    row(
        SUITE,
        "c",
        maths.prepared(SOURCE, lambda p: f"{p.phase}_{p.kind}", Argument, axis=_elements),
        kernel=_own_kernel,
        roles=LIBRARY,
    ),
    Variant(
        "libm",
        "cpu",
        "libc",
        maths.prepared(SOURCE, lambda p: f"libm_{p.kind}", Argument, registers=False),  # it chooses by itself
        accepts=_scalar,
        kernel=_libm_kernel,
    ),
    row(NUMPY, "numpy", libraries.numpy_chain, kernel=libraries.numpy_kernel, roles=LIBRARY),
    row(TORCH, "torch", libraries.torch_out, kernel=libraries.torch_kernel, roles=LIBRARY),
    row(NUMBA, "numba", libraries.numba_loop, accepts=_forward, kernel=libraries.numba_kernel, roles=LIBRARY),
    row(CUDA_SUITE, "cuda", grid.solving(gpu.SOURCE, gpu.launches, gpu.kernel), roles=LIBRARY),
    row(CUPY, "cupy", gpu.cupy_chain, roles=LIBRARY),
    row(TORCH_CUDA, "torch-cuda", gpu.torch_out, roles=LIBRARY),
)
