"""Products on a GPU: our kernels, cuBLAS through every binding, and strategies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernels import grid
from kernels.errors import UsageError
from kernels.libs.cublas import CUBLAS
from kernels.libs.cublaslt import CUBLASLT
from kernels.libs.cuda import CUDA_SUITE, CUPY
from kernels.libs.numba import NUMBA_CUDA
from kernels.libs.pycuda import PYCUDA
from kernels.libs.skcuda import SKCUDA
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.ops.gemm import cublas, gpu
from kernels.ops.gemm.accepts import column_major, copied, plain, transposes, typed, up_to
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Work
from kernels.provider import Provider
from kernels.variant import DEFAULT, Variant, row

EVERY = ("fp32", "tf32", "bf16", "fp16")


def _cuda_kernel(kernel: str) -> Callable[[Gemm, Any, object], Any]:
    return grid.prepared(gpu.SOURCE, lambda problem, device: gpu.launches(problem, kernel))


def _row(provider: Provider, name: str, prepare: Any, *types: str, **more: Any) -> Variant[Gemm]:
    return row(provider, name, prepare, accepts=typed(*types, also=more.pop("accepts", None)), **more)


def then_nn(parameter: str = "") -> Variant[Gemm]:
    """Return `cuda-transpose-then-nn[:geam]`: transpose by our tiles or cublasSgeam, then cuBLAS's NN."""
    if parameter not in ("", "geam"):
        raise UsageError(f"--variant cuda-transpose-then-nn:{parameter}: only geam is supported after the colon")
    return _strategy("cuda-transpose-then-nn", parameter, 1, tiled=not parameter)


def kept(parameter: str = "") -> Variant[Gemm]:
    """Return `cuda-kept-transpose[:uses]`: one transposed copy serves `uses` products (default 8)."""
    if parameter and not re.fullmatch("[1-9][0-9]*", parameter):
        raise UsageError(
            f"--variant cuda-kept-transpose:{parameter}: uses must be positive, e.g. cuda-kept-transpose:8"
        )
    return _strategy("cuda-kept-transpose", parameter or "8", int(parameter or 8), tiled=True)


def _strategy(family: str, parameter: str, uses: int, tiled: bool) -> Variant[Gemm]:
    name = f"{family}:{parameter}" if parameter else family
    by = "this suite's transposition" if tiled else "transposition by cublasSgeam"
    return _row(
        CUBLAS,
        name,
        cublas.strategy(uses, tiled),
        "fp32",
        accepts=transposes(uses),
        blas=lambda problem: f"{by}, then NN = sgemm(N,N)",
        work=lambda problem: Work(problem.flops, problem.bytes + copied(problem) / uses),
    )


LIBRARY = (DEFAULT, "library")
VARIANTS: tuple[Variant[Gemm], ...] = (
    _row(CUBLAS, "cublas", cublas.product, *EVERY, blas=column_major, roles=(*LIBRARY, "strategy", "crossover")),
    _row(CUBLASLT, "cublaslt", cublas.light(), *EVERY, blas=column_major, roles=LIBRARY),
    _row(CUPY, "cupy-raw", gpu.cupy_raw, *EVERY, blas=column_major, roles=LIBRARY),
    _row(CUPY, "cupy", gpu.cupy_matmul, "fp32", "fp16", accepts=plain, roles=LIBRARY),
    _row(SKCUDA, "skcuda", gpu.scikit, "fp32", blas=column_major, roles=LIBRARY),
    _row(PYCUDA, "pycuda", gpu.by_pycuda, "fp32"),
    _row(TORCH_CUDA, "torch-cuda", gpu.torch_mm, *EVERY, accepts=plain, blas=column_major, roles=(*LIBRARY, "types")),
    _row(CUBLASLT, "cublaslt-best", cublas.light(best=True), *EVERY, blas=column_major),
    _row(CUDA_SUITE, "cuda-tiled", _cuda_kernel("sgemm_tiled"), "fp32"),
    _row(
        CUDA_SUITE,
        "cuda-naive",
        _cuda_kernel("sgemm_naive"),
        "fp32",
        accepts=up_to(2000, "every term is read from memory"),
    ),
    _row(NUMBA_CUDA, "numba-cuda-tiled", gpu.by_numba("sgemm_tiled"), "fp32", accepts=up_to(2000, "tiles of 16")),
    _row(
        NUMBA_CUDA,
        "numba-cuda-naive",
        gpu.by_numba("sgemm_naive"),
        "fp32",
        accepts=up_to(2000, "every term is read from memory"),
    ),
    _row(CUBLAS, "cublas-pedantic", cublas.pedantic, "fp32", blas=column_major, roles=()),
    _row(CUBLASLT, "cublaslt-pedantic", cublas.light(strict=True), "fp32", blas=column_major, roles=()),
    replace(then_nn(), roles=("strategy",)),
    replace(then_nn("geam"), roles=("strategy",)),
    replace(kept("8"), roles=("kept",)),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {"cuda-transpose-then-nn": then_nn, "cuda-kept-transpose": kept}
