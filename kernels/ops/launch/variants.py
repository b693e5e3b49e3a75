"""Ways to call the same small kernel, from C to a compiled framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kernels.libs import cuda, mkl, openblas
from kernels.libs.cffi import CFFI
from kernels.libs.cublas import CUBLAS
from kernels.libs.cuda import CUDA_SUITE, CUPY
from kernels.libs.mkl import MKL
from kernels.libs.numba import NUMBA, NUMBA_CUDA
from kernels.libs.openblas import OPENBLAS
from kernels.libs.pycuda import PYCUDA
from kernels.libs.skcuda import SKCUDA
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.ops.launch import gpu, libraries, native
from kernels.ops.launch.problem import Calls
from kernels.provider import SUITE
from kernels.variant import DEFAULT, Variant, row

OWN_CLOCK = "own clock"  # role of variants that can also be timed by the device's clock


def only(kernel: str, why: str) -> Callable[[Calls], str | None]:
    """Return an `accepts` condition: the problem calls `kernel`, else the reason is `why`."""
    return lambda problem: None if problem.kernel == kernel else why


def harness(problem: Calls) -> str | None:
    """Return why the empty harness refuses `problem`, or None. Its cost does not depend on the chain."""
    if problem.kernel != "empty":
        return "the bare harness computes no product: --kernel empty"
    return None if problem.chain == 1 else "the harness's overhead does not depend on the chain: --chain 1"


def describe(gemm: str, empty: str = "") -> Callable[[Calls], str | None]:
    """Return a function from a problem to the description of its call."""
    return lambda problem: gemm if problem.kernel == "gemm" else empty or gemm


PRODUCT = partial(only, "gemm")
EMPTY = partial(only, "empty")
BLAS = PRODUCT("a BLAS has no empty call: --kernel gemm")
NUMPY = partial(openblas.load, "numpy")


def of_its_caller(variant: Variant[Calls]) -> Variant[Calls]:
    """Return the variant, timed by its caller only."""

    def accepts(problem: Calls) -> str | None:
        if not problem.on_host:
            return "GPU time does not depend on the caller: --variant cuda-c,cuda-graph, or --clock caller"
        return variant.accepts(problem)

    return replace(variant, accepts=accepts)


CUDA: tuple[Variant[Calls], ...] = (
    row(
        CUDA_SUITE,
        "nothing-cuda",
        gpu.nothing,
        accepts=harness,
        python=True,
        blas=describe("", "Python loop of 0 iterations: the harness's overhead per launch"),
        roles=("harness",),
    ),
    row(
        CUDA_SUITE,
        "cuda-c",
        gpu.from_c,
        blas=describe("cuLaunchKernel from a C loop"),
        roles=(DEFAULT, "chain", "nothing-cuda:gemm", "nothing-cuda:empty", OWN_CLOCK),
    ),
    row(
        CUDA_SUITE,
        "cuda-graph",
        gpu.graph,
        kernel=cuda.kernel,
        blas=describe("replay of a captured graph of all launches"),
        roles=(DEFAULT, "chain", OWN_CLOCK),
    ),
    row(
        CUDA_SUITE,
        "cuda-ctypes",
        gpu.from_ctypes,
        python=True,
        blas=describe("cuLaunchKernel, arguments prepared"),
        roles=(DEFAULT, "nothing-cuda:gemm", "nothing-cuda:empty"),
    ),
    row(CUPY, "cupy-kernel", gpu.cupy_kernel, blas=describe("function(grid, block, arguments) of CuPy")),
    row(PYCUDA, "pycuda", gpu.pycuda_kernel, blas=describe("prepared_async_call of PyCUDA")),
    row(NUMBA_CUDA, "numba-cuda", gpu.numba_kernel, blas=describe("a configured @cuda.jit kernel")),
    row(
        CUBLAS,
        "cublas",
        gpu.CUBLAS,
        accepts=BLAS,
        python=True,
        blas=describe("cublasSgemm through ctypes, arguments prepared"),
        roles=(DEFAULT, "chain"),
    ),
    row(CUPY, "cupy-raw", gpu.CUPY_RAW, accepts=BLAS, blas=describe("CuPy's binding of cublasSgemm")),
    row(CUPY, "cupy", gpu.CUPY, accepts=BLAS, blas=describe("cupy.matmul(a, b, out=c)"), roles=(DEFAULT, "chain")),
    row(SKCUDA, "skcuda", gpu.SKCUDA, accepts=BLAS, blas=describe("skcuda.cublas.cublasSgemm")),
    row(
        TORCH_CUDA,
        "torch-cuda",
        gpu.torch_call,
        blas=describe("torch.mm(a, b, out=c)", "Tensor.zero_() of an empty tensor"),
        roles=(DEFAULT, "chain"),
    ),
)
CPU: tuple[Variant[Calls], ...] = (
    row(
        SUITE,
        "nothing",
        native.nothing,
        accepts=harness,
        blas=describe("", "empty C function: the harness's overhead per launch"),
        roles=("harness",),
    ),
    row(
        SUITE,
        "c",
        native.from_c,
        blas=describe("our C function through a pointer, from a C loop"),
        roles=(DEFAULT, "chain", "nothing:gemm", "nothing:empty"),
    ),
    row(OPENBLAS, "openblas", native.library(NUMPY), accepts=BLAS, blas=describe("cblas_sgemm from a C loop")),
    row(MKL, "mkl", native.library(mkl.load), accepts=BLAS, blas=describe("cblas_sgemm from a C loop")),
    row(
        SUITE,
        "nothing-python",
        libraries.nothing,
        python=True,
        accepts=harness,
        blas=describe("", "Python loop of 0 iterations: the harness's overhead per launch"),
        roles=("harness",),
    ),
    row(
        SUITE,
        "python",
        libraries.python,
        python=True,
        accepts=EMPTY("a product in pure Python would time Python's arithmetic: --kernel empty"),
        blas=describe("", "an empty Python function"),
        roles=(DEFAULT, "nothing-python:empty"),
    ),
    row(
        NUMBA,
        "numba",
        libraries.numba_njit,
        blas=describe("an @njit function of the same loops", "an empty @njit function"),
        roles=(DEFAULT, "nothing-python:gemm"),
    ),
    row(
        CFFI,
        "cffi",
        libraries.cffi_abi,
        blas=describe("our C function, ABI mode, arguments prepared"),
        roles=(DEFAULT, "nothing-python:gemm"),
    ),
    row(
        SUITE,
        "ctypes",
        libraries.ctypes_prepared,
        python=True,
        blas=describe("our C function, arguments prepared"),
        roles=(DEFAULT, "chain", "nothing-python:gemm"),
    ),
    row(
        SUITE,
        "ctypes-convert",
        libraries.ctypes_convert,
        python=True,
        blas=describe("our C function, a Python int converted for each pointer"),
    ),
    row(
        OPENBLAS,
        "ctypes-openblas",
        libraries.ctypes_openblas,
        accepts=BLAS,
        python=True,
        blas=describe("cblas_sgemm, fourteen arguments prepared"),
    ),
    Variant(
        "numpy",
        "cpu",
        "openblas",
        libraries.numpy_matmul,
        python=True,
        accepts=PRODUCT("NumPy has no empty call: --kernel gemm"),
        blas=describe("np.matmul(a, b, c)"),
        roles=(DEFAULT, "chain"),
    ),
    Variant(
        "scipy",
        "cpu",
        "openblas",
        libraries.scipy_sgemm,
        accepts=BLAS,
        python=True,
        blas=describe("scipy.linalg.blas.sgemm with overwrite_c"),
    ),
    row(
        TORCH,
        "torch",
        libraries.eager,
        blas=describe("torch.mm(a, b, out=c)", "Tensor.zero_() of an empty tensor"),
        roles=(DEFAULT, "chain"),
    ),
    row(
        TORCH,
        "torch-compile",
        libraries.compiled,
        blas=describe("torch.compile of a function of one torch.mm"),
        accepts=PRODUCT("torch.compile compiles nothing for an empty function: --kernel gemm"),
        roles=("slow",),
    ),
)
VARIANTS = tuple(x if OWN_CLOCK in x.roles else of_its_caller(x) for x in (*CPU, *CUDA))
