"""The products on a GPU: own kernels as the ladder up to cuBLAS, cuBLAS through every binding, strategies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernels import grid
from kernels.errors import UsageError
from kernels.libs import cublas as cublas_library
from kernels.libs import cublaslt, cuda, numba, pycuda, skcuda, torch_cuda
from kernels.ops.gemm import cublas, gpu
from kernels.ops.gemm import cuda as own
from kernels.ops.gemm.accepts import column_major, copied, plain, transposes, typed, up_to
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Work
from kernels.variant import DEFAULT, Variant

EVERY = ("fp32", "tf32", "bf16", "fp16")


def numba_missing() -> str | None:
    return cuda.missing() or numba.missing()


def _own(kernel: str) -> Callable[[Gemm, Any, object], Any]:
    return grid.prepared(own.SOURCE, lambda problem, device: own.launches(problem, kernel))


def _row(name: str, provider: str, prepare: Any, *types: str, **more: Any) -> Variant[Gemm]:
    more.setdefault("missing", cuda.missing)
    accepts = typed(*types, also=more.pop("accepts", None))
    return Variant(name, "cuda", provider, prepare, accepts=accepts, **more)


def then_nn(parameter: str = "") -> Variant[Gemm]:
    """`cuda-transpose-then-nn[:geam]`: our tiles, or cublasSgeam, then cuBLAS's NN."""
    if parameter not in ("", "geam"):
        raise UsageError(f"--variant cuda-transpose-then-nn:{parameter}: after the colon there is geam")
    return _strategy("cuda-transpose-then-nn", parameter, 1, own=not parameter)


def kept(parameter: str = "") -> Variant[Gemm]:
    """`cuda-kept-transpose[:uses]`: one copy serves that many products."""
    if parameter and not re.fullmatch("[1-9][0-9]*", parameter):
        raise UsageError(
            f"--variant cuda-kept-transpose:{parameter}: give the number of uses, as cuda-kept-transpose:8"
        )
    return _strategy("cuda-kept-transpose", parameter or "8", int(parameter or 8), own=True)


def _strategy(family: str, parameter: str, uses: int, own: bool) -> Variant[Gemm]:
    name = f"{family}:{parameter}" if parameter else family
    by = "this suite's transposition" if own else "transposition by cublasSgeam"
    return _row(
        name,
        "cublas",
        cublas.strategy(uses, own),
        "fp32",
        missing=cublas_library.missing,
        accepts=transposes(uses),
        kernel=cublas_library.kernel,
        blas=lambda problem: f"{by}, then NN = sgemm(N,N)",
        work=lambda problem: Work(problem.flops, problem.bytes + copied(problem) / uses),
    )


LIBRARY = (DEFAULT, "library")
VARIANTS: tuple[Variant[Gemm], ...] = (
    _row(
        "cublas",
        "cublas",
        cublas.product,
        *EVERY,
        missing=cublas_library.missing,
        blas=column_major,
        kernel=cublas_library.kernel,
        roles=(*LIBRARY, "strategy", "crossover"),
    ),
    _row(
        "cublaslt",
        "cublas",
        cublas.light(),
        *EVERY,
        missing=cublaslt.missing,
        blas=column_major,
        kernel=cublas_library.kernel,
        roles=LIBRARY,
    ),
    _row("cupy-raw", "cupy", gpu.cupy_raw, *EVERY, blas=column_major, python=True, kernel=cuda.kernel, roles=LIBRARY),
    _row(
        "cupy", "cupy", gpu.cupy_matmul, "fp32", "fp16", accepts=plain, python=True, kernel=cuda.kernel, roles=LIBRARY
    ),
    _row("skcuda", "skcuda", gpu.scikit, "fp32", missing=skcuda.missing, blas=column_major, python=True, roles=LIBRARY),
    _row("pycuda", "pycuda", gpu.by_pycuda, "fp32", missing=pycuda.missing, python=True),
    _row(
        "torch-cuda",
        "torch",
        gpu.torch_mm,
        *EVERY,
        missing=torch_cuda.missing,
        accepts=plain,
        blas=column_major,
        python=True,
        kernel=torch_cuda.kernel,
        roles=(*LIBRARY, "types"),
    ),
    _row(
        "cublaslt-best",
        "cublas",
        cublas.light(best=True),
        *EVERY,
        missing=cublaslt.missing,
        blas=column_major,
        kernel=cublas_library.kernel,
    ),
    _row("cuda-tiled", "suite", _own("sgemm_tiled"), "fp32"),
    _row("cuda-naive", "suite", _own("sgemm_naive"), "fp32", accepts=up_to(2000, "every term is read from memory")),
    _row(
        "numba-cuda-tiled",
        "numba",
        gpu.numba("sgemm_tiled"),
        "fp32",
        missing=numba_missing,
        accepts=up_to(2000, "tiles of 16"),
        python=True,
        kernel=numba.kernel,
    ),
    _row(
        "numba-cuda-naive",
        "numba",
        gpu.numba("sgemm_naive"),
        "fp32",
        missing=numba_missing,
        accepts=up_to(2000, "every term is read from memory"),
        python=True,
        kernel=numba.kernel,
    ),
    _row(
        "cublas-pedantic",
        "cublas",
        cublas.pedantic,
        "fp32",
        missing=cublas_library.missing,
        blas=column_major,
        kernel=cublas_library.kernel,
        roles=(),
    ),
    _row(
        "cublaslt-pedantic",
        "cublas",
        cublas.light(strict=True),
        "fp32",
        missing=cublaslt.missing,
        blas=column_major,
        kernel=cublas_library.kernel,
        roles=(),
    ),
    replace(then_nn(), roles=("strategy",)),
    replace(then_nn("geam"), roles=("strategy",)),
    replace(kept("8"), roles=("kept",)),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {"cuda-transpose-then-nn": then_nn, "cuda-kept-transpose": kept}
