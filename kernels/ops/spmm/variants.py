"""Sparse products by CSR in our C, SciPy and PyTorch; and the dense product of the same weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.launch import Bind, Launch
from kernels.libs import openblas
from kernels.libs import torch as torch_library
from kernels.libs.cublas import CUBLAS
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cusparse import CUSPARSE
from kernels.libs.openblas import OPENBLAS
from kernels.libs.torch import TORCH
from kernels.native import launch, structure
from kernels.ops.gemm import Gemm
from kernels.ops.gemm.native import product
from kernels.ops.spmm import gpu
from kernels.ops.spmm.problem import Spmm
from kernels.problem import Work
from kernels.provider import SCIPY, SUITE
from kernels.variant import Variant, row

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("csr.c")
NUMPY = partial(openblas.load, "numpy")
Argument = structure("pointer: b c values columns pointers", "int64: m n")  # C struct `product` of csr.c


def c_csr(problem: Spmm, device: Any, setting: object) -> Bind:
    function = build.address(SOURCE, "spmm_csr")
    kept = problem.weights()
    places = dict(zip(("values", "columns", "pointers"), (x.ctypes.data for x in kept), strict=True))
    workspace = sum(x.nbytes for x in kept)

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(m=problem.m, n=problem.n, **places)
        return launch(function, argument, "bc", buffers, workspace=workspace, keep=kept)

    return bind


def scipy_csr(problem: Spmm, device: object, setting: object) -> Bind:
    """Prepare csr_matvecs, which SciPy's `@` calls: it adds to C, which is cleared before."""
    from scipy.sparse import _sparsetools

    values, columns, pointers = problem.weights()
    add: Any = _sparsetools.csr_matvecs

    def bind(buffers: Sequence[Array]) -> Launch:
        b, c = (x.reshape(-1) for x in buffers)

        def run() -> None:
            c.fill(0)
            add(problem.m, problem.k, problem.n, pointers, columns, values, b, c)

        return Launch(run, workspace=values.nbytes + columns.nbytes + pointers.nbytes)

    return bind


def torch_csr(problem: Spmm, device: object, setting: Any) -> Bind:
    """Prepare torch.mm of a sparse CSR tensor, into c."""
    torch = torch_library.on_threads(setting.threads)
    values, columns, pointers = (torch.from_numpy(x) for x in problem.weights())
    shape = (problem.m, problem.k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its beta state
        weights = torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)

    def bind(buffers: Sequence[Array]) -> Launch:
        b, c = (torch.from_numpy(x) for x in buffers)
        return Launch(partial(torch.mm, weights, b, out=c))

    return bind


def dense(problem: Spmm, device: Any, setting: Any) -> Bind:
    """Prepare cblas_sgemm of OpenBLAS on W with its zeros."""
    gemm = Gemm(problem.m, problem.n, problem.k)
    bound = product(NUMPY)(gemm, device, setting)
    weights = problem.dense()

    def bind(buffers: Sequence[Array]) -> Launch:
        gemm_launch = bound([weights, *buffers])
        entry = gemm_launch.entry
        assert entry is not None
        moved = type(entry)(entry.function, entry.argument, entry.slots[1:], (entry.keep, weights))
        return Launch(gemm_launch.call, workspace=weights.nbytes, entry=moved)

    return bind


def executed(problem: Spmm) -> Work:
    gemm = Gemm(problem.m, problem.n, problem.k)
    return Work(gemm.flops, gemm.bytes)


VARIANTS: tuple[Variant[Spmm], ...] = (
    row(OPENBLAS, "dense", dense, work=executed),
    row(SUITE, "c-csr", c_csr),
    row(SCIPY, "scipy-csr", scipy_csr),
    row(TORCH, "torch-csr", torch_csr),
    row(CUBLAS, "cublas-dense", gpu.dense, work=executed),
    row(CUDA_SUITE, "cuda-csr", gpu.csr),
    row(CUSPARSE, "cusparse", partial(gpu.sparse, "default")),
    row(CUSPARSE, "cusparse-alg1", partial(gpu.sparse, "alg1"), roles=()),
    row(CUSPARSE, "cusparse-alg2", partial(gpu.sparse, "alg2")),
    row(CUSPARSE, "cusparse-alg3", partial(gpu.sparse, "alg3"), roles=()),
)
