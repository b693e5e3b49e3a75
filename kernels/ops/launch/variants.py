"""The rungs there are, from C to a compiled framework: one row is one way to the same kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.libs import cffi, cublas, cuda, mkl, numba, openblas, pycuda, skcuda, torch_cuda
from kernels.libs import torch as torch_library
from kernels.ops.gemm.cuda_variants import numba_missing as numba_cuda_missing
from kernels.ops.launch import frameworks, gpu, interpreted, native
from kernels.ops.launch.problem import Calls
from kernels.variant import DEFAULT, Variant

OWN_CLOCK = "own clock"  # a role: timed by the device, too


def only(kernel: str, why: str) -> Callable[[Calls], str | None]:
    """For rungs that reach one kernel alone."""
    return lambda problem: None if problem.kernel == kernel else why


def harness(problem: Calls) -> str | None:
    """For the harness alone, which is one thing however long a launch is."""
    if problem.kernel != "empty":
        return "the harness alone makes no product: --kernel empty"
    return None if problem.chain == 1 else "the harness adds the same to a launch of any length: --chain 1"


def told(gemm: str, empty: str = "") -> Callable[[Calls], str | None]:
    """Which call is made, in words."""
    return lambda problem: gemm if problem.kernel == "gemm" else empty or gemm


PRODUCT = partial(only, "gemm")
EMPTY = partial(only, "empty")
BLAS = PRODUCT("a BLAS has no call that does nothing: --kernel gemm")
NUMPY = partial(openblas.load, "numpy")
BUNDLED = partial(openblas.missing, "numpy")


def of_its_caller(row: Variant[Calls]) -> Variant[Calls]:
    """One that is timed by its caller alone."""

    def accepts(problem: Calls) -> str | None:
        if not problem.on_host:
            return "what a GPU takes does not depend on who calls: --variant cuda-c,cuda-graph, or --clock caller"
        return row.accepts(problem)

    return replace(row, accepts=accepts)


CUDA: tuple[Variant[Calls], ...] = (
    Variant(
        "nothing-cuda",
        "cuda",
        "suite",
        gpu.nothing,
        accepts=harness,
        missing=cuda.missing,
        python=True,
        blas=told("", "a Python function whose loop makes no turn: what the harness adds to a launch"),
        roles=("harness",),
    ),
    Variant(
        "cuda-c",
        "cuda",
        "suite",
        gpu.from_c,
        missing=cuda.missing,
        blas=told("cuLaunchKernel from a C loop"),
        roles=(DEFAULT, "chain", "nothing-cuda:gemm", "nothing-cuda:empty", OWN_CLOCK),
    ),
    Variant(
        "cuda-graph",
        "cuda",
        "suite",
        gpu.graph,
        missing=cuda.missing,
        kernel=cuda.kernel,
        blas=told("a captured graph of all the launches, replayed"),
        roles=(DEFAULT, "chain", OWN_CLOCK),
    ),
    Variant(
        "cuda-ctypes",
        "cuda",
        "suite",
        gpu.from_ctypes,
        missing=cuda.missing,
        python=True,
        blas=told("cuLaunchKernel, arguments prepared"),
        roles=(DEFAULT, "nothing-cuda:gemm", "nothing-cuda:empty"),
    ),
    Variant(
        "cupy-kernel",
        "cuda",
        "cupy",
        gpu.cupy_kernel,
        missing=cuda.missing,
        kernel=cuda.kernel,
        python=True,
        blas=told("function(grid, block, arguments) of CuPy"),
    ),
    Variant(
        "pycuda",
        "cuda",
        "pycuda",
        gpu.pycuda_kernel,
        missing=pycuda.missing,
        python=True,
        blas=told("prepared_async_call of PyCUDA"),
    ),
    Variant(
        "numba-cuda",
        "cuda",
        "numba",
        gpu.numba_kernel,
        missing=numba_cuda_missing,
        kernel=numba.kernel,
        python=True,
        blas=told("a configured @cuda.jit kernel"),
    ),
    Variant(
        "cublas",
        "cuda",
        "cublas",
        gpu.CUBLAS,
        accepts=BLAS,
        missing=cublas.missing,
        kernel=cublas.kernel,
        python=True,
        blas=told("cublasSgemm through ctypes, arguments prepared"),
        roles=(DEFAULT, "chain"),
    ),
    Variant(
        "cupy-raw",
        "cuda",
        "cupy",
        gpu.CUPY_RAW,
        accepts=BLAS,
        missing=cuda.missing,
        kernel=cuda.kernel,
        python=True,
        blas=told("CuPy's binding of cublasSgemm"),
    ),
    Variant(
        "cupy",
        "cuda",
        "cupy",
        gpu.CUPY,
        accepts=BLAS,
        missing=cuda.missing,
        kernel=cuda.kernel,
        python=True,
        blas=told("cupy.matmul(a, b, out=c)"),
        roles=(DEFAULT, "chain"),
    ),
    Variant(
        "skcuda",
        "cuda",
        "skcuda",
        gpu.SKCUDA,
        accepts=BLAS,
        missing=skcuda.missing,
        python=True,
        blas=told("skcuda.cublas.cublasSgemm"),
    ),
    Variant(
        "torch-cuda",
        "cuda",
        "torch",
        gpu.torch_call,
        missing=torch_cuda.missing,
        kernel=torch_cuda.kernel,
        python=True,
        blas=told("torch.mm(a, b, out=c)", "Tensor.zero_() of no element"),
        roles=(DEFAULT, "chain"),
    ),
)
CPU: tuple[Variant[Calls], ...] = (
    Variant(
        "nothing",
        "cpu",
        "suite",
        native.nothing,
        accepts=harness,
        blas=told("", "an entry that returns at once: what the harness adds to a launch from C"),
        roles=("harness",),
    ),
    Variant(
        "c",
        "cpu",
        "suite",
        native.from_c,
        blas=told("our C function through a pointer, from a C loop"),
        roles=(DEFAULT, "chain", "nothing:gemm", "nothing:empty"),
    ),
    Variant(
        "openblas",
        "cpu",
        "openblas",
        native.library(NUMPY),
        accepts=BLAS,
        missing=BUNDLED,
        blas=told("cblas_sgemm from a C loop"),
    ),
    Variant(
        "mkl",
        "cpu",
        "mkl",
        native.library(mkl.load),
        accepts=BLAS,
        missing=mkl.missing,
        blas=told("cblas_sgemm from a C loop"),
    ),
    Variant(
        "nothing-python",
        "cpu",
        "suite",
        interpreted.nothing,
        python=True,
        accepts=harness,
        blas=told("", "a Python function whose loop makes no turn: what the harness adds to a launch from Python"),
        roles=("harness",),
    ),
    Variant(
        "python",
        "cpu",
        "suite",
        interpreted.python,
        python=True,
        accepts=EMPTY("a product in pure Python measures Python's arithmetic: --kernel empty"),
        blas=told("", "an empty Python function"),
        roles=(DEFAULT, "nothing-python:empty"),
    ),
    Variant(
        "numba",
        "cpu",
        "numba",
        interpreted.numba_njit,
        missing=numba.missing,
        kernel=numba.kernel,
        python=True,
        blas=told("an @njit function of the same loops", "an empty @njit function"),
        roles=(DEFAULT, "nothing-python:gemm"),
    ),
    Variant(
        "cffi",
        "cpu",
        "cffi",
        interpreted.cffi_abi,
        missing=cffi.missing,
        kernel=cffi.kernel,
        python=True,
        blas=told("our C function, ABI mode, arguments prepared"),
        roles=(DEFAULT, "nothing-python:gemm"),
    ),
    Variant(
        "ctypes",
        "cpu",
        "suite",
        interpreted.ctypes_prepared,
        python=True,
        blas=told("our C function, arguments prepared"),
        roles=(DEFAULT, "chain", "nothing-python:gemm"),
    ),
    Variant(
        "ctypes-convert",
        "cpu",
        "suite",
        interpreted.ctypes_convert,
        python=True,
        blas=told("our C function, argtypes convert a Python int for each pointer"),
    ),
    Variant(
        "ctypes-openblas",
        "cpu",
        "openblas",
        interpreted.ctypes_openblas,
        accepts=BLAS,
        missing=BUNDLED,
        python=True,
        blas=told("cblas_sgemm, fourteen arguments prepared"),
    ),
    Variant(
        "numpy",
        "cpu",
        "openblas",
        interpreted.numpy_matmul,
        python=True,
        accepts=PRODUCT("NumPy has no call that does nothing: --kernel gemm"),
        blas=told("np.matmul(a, b, c)"),
        roles=(DEFAULT, "chain"),
    ),
    Variant(
        "scipy",
        "cpu",
        "openblas",
        interpreted.scipy_sgemm,
        accepts=BLAS,
        python=True,
        blas=told("scipy.linalg.blas.sgemm with overwrite_c"),
    ),
    Variant(
        "torch",
        "cpu",
        "torch",
        frameworks.eager,
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
        blas=told("torch.mm(a, b, out=c)", "Tensor.zero_() of no element"),
        roles=(DEFAULT, "chain"),
    ),
    Variant(
        "torch-compile",
        "cpu",
        "torch",
        frameworks.compiled,
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
        blas=told("torch.compile of a function of one torch.mm"),
        accepts=PRODUCT("torch.compile makes nothing of a function without an operation: --kernel gemm"),
        roles=("slow",),
    ),
)
VARIANTS = tuple(row if OWN_CLOCK in row.roles else of_its_caller(row) for row in (*CPU, *CUDA))
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
