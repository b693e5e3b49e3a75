"""Activations: our vectors, the C library's functions, NumPy, PyTorch, Numba; on a GPU ours, CuPy, PyTorch."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels import grid, maths, own
from kernels.libs import cuda as cuda_library
from kernels.libs import numba, torch_cuda
from kernels.libs import torch as torch_library
from kernels.ops.activation import cuda, gpu, libraries
from kernels.ops.activation.problem import Activation
from kernels.variant import DEFAULT, Variant

SOURCE = Path(__file__).with_name("activation.c")
LENGTH, LINE = 4, 16  # bytes of an element; elements of a cache line, which threads do not share


class Argument(ctypes.Structure):
    """`argument` of activation.c."""

    _fields_ = (*((name, maths.POINTER) for name in ("x", "dy", "y")), ("count", maths.INT64))


def _argument(problem: Activation) -> tuple[ctypes.Structure, tuple[object, ...]]:
    return Argument(count=problem.count), ()


def _elements(problem: Activation) -> own.Axis:
    return own.Axis("count", problem.count, dict.fromkeys(("x", "dy", "y"), LENGTH), LINE)


def _scalar(problem: Activation) -> str | None:
    if problem.kind == "relu":
        return "relu needs no function of the C library"
    return None if problem.phase == "forward" else "gradients need no function of the C library"


def _forward(problem: Activation) -> str | None:
    return None if problem.phase == "forward" else "only --phase forward"


def _own_kernel() -> tuple[str | None, str | None]:
    return "polynomials of kernels/maths.c, at most 3 ULP", None


def _libm_kernel() -> tuple[str | None, str | None]:
    return f"{' '.join(platform.libc_ver()) or 'libm'}, one element a call", None


LIBRARY = (DEFAULT, "library")
VARIANTS: tuple[Variant[Activation], ...] = (
    Variant(
        "c",
        "cpu",
        "suite",
        maths.prepared(SOURCE, lambda p: f"{p.phase}_{p.kind}", _argument, axis=_elements),
        kernel=_own_kernel,
        roles=LIBRARY,
    ),
    Variant(
        "libm",
        "cpu",
        "libc",
        maths.prepared(SOURCE, lambda p: f"libm_{p.kind}", _argument, told=False),  # it chooses by itself
        accepts=_scalar,
        kernel=_libm_kernel,
    ),
    Variant("numpy", "cpu", "numpy", libraries.numpy_chain, kernel=libraries.numpy_kernel, python=True, roles=LIBRARY),
    Variant(
        "torch",
        "cpu",
        "torch",
        libraries.torch_out,
        missing=torch_library.missing,
        kernel=libraries.torch_kernel,
        python=True,
        roles=LIBRARY,
    ),
    Variant(
        "numba",
        "cpu",
        "numba",
        libraries.numba_loop,
        accepts=_forward,
        missing=numba.missing,
        kernel=libraries.numba_kernel,
        python=True,
        roles=LIBRARY,
    ),
    Variant("cuda", "cuda", "suite", grid.solving(cuda), missing=cuda_library.missing, roles=LIBRARY),
    Variant(
        "cupy",
        "cuda",
        "cupy",
        gpu.cupy_chain,
        missing=cuda_library.missing,
        kernel=cuda_library.kernel,
        python=True,
        roles=LIBRARY,
    ),
    Variant(
        "torch-cuda",
        "cuda",
        "torch",
        gpu.torch_out,
        missing=torch_cuda.missing,
        kernel=torch_cuda.kernel,
        python=True,
        roles=LIBRARY,
    ),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
