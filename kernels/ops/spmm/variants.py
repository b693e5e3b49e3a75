"""Sparse CSR products by our kernels and libraries, and dense products with the same weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import build, grid
from kernels.launch import Bind, Launch, held
from kernels.libs import cublas, cusparse, openblas
from kernels.libs import torch as torch_library
from kernels.libs.cublas import CUBLAS
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cusparse import CUSPARSE
from kernels.libs.openblas import OPENBLAS
from kernels.libs.torch import TORCH
from kernels.native import launch, structure
from kernels.nvcc import Geometry, over
from kernels.ops.gemm import Gemm
from kernels.ops.gemm.cublas import addresses, call_of
from kernels.ops.gemm.native import product
from kernels.ops.spmm.problem import Spmm
from kernels.problem import Array, Work
from kernels.provider import SCIPY, SUITE
from kernels.variant import Variant, row

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
    """Prepare csr_matvecs, the routine behind SciPy's `@`, which adds to C: C is cleared first."""
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
    """Prepare OpenBLAS's cblas_sgemm with W as a dense matrix."""
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


CUDA_SOURCE = Path(__file__).with_name("csr.cu")
KERNELS = ("csr_rows",)
THREADS = 128
WEIGHTS = ("values", "columns", "pointers")  # of W, in the order of Spmm.weights


def launches(problem: Spmm, name: str) -> tuple[Geometry, ...]:
    """Return the one launch of `problem`."""
    across = -(-problem.n // THREADS)
    return (over(name, problem.m * across, THREADS, ("b", "c", *WEIGHTS), problem.n, across),)


def cuda_csr(problem: Spmm, device: Any, setting: object) -> Bind:
    """Prepare our CSR kernel; W is copied to the device once."""
    kept = [device.cp.asarray(x) for x in problem.weights()]
    weights = dict(zip(WEIGHTS, addresses(kept), strict=True))
    geometries = launches(problem, KERNELS[0])
    device.function(CUDA_SOURCE, KERNELS[0])  # compiled during preparation, not when bound

    def bind(buffers: Sequence[Any]) -> Launch:
        b, c = addresses(buffers)
        run = grid.calls(CUDA_SOURCE, geometries, {**weights, "b": b, "c": c}, device)
        workspace = sum(int(x.nbytes) for x in kept)
        return held(run, (kept, *buffers), workspace=workspace, capturable=True, kernels=len(geometries))

    return bind


def by_cusparse(algorithm: str, problem: Spmm, device: Any, setting: object) -> Bind:
    """Prepare cusparseSpMM with the given algorithm; all launches share a work area."""
    on = device.sparse()
    kept = [device.cp.asarray(x) for x in problem.weights()]
    values, columns, pointers = addresses(kept)
    weights = cusparse.csr(on, (problem.m, problem.k), problem.nonzeros, (values, columns, pointers))
    nbytes = cusparse.area(on, algorithm, weights, problem.n)
    area = device.allocate(max(nbytes, 1))
    (work,) = addresses([area])

    def bind(buffers: Sequence[Any]) -> Launch:
        b, c = addresses(buffers)
        run = cusparse.product(on, algorithm, weights, problem.n, b, c, work)
        workspace = nbytes + sum(int(x.nbytes) for x in kept)
        return held(run, (kept, area, *buffers), workspace=workspace, capturable=True, kernels=cusparse.KERNELS)

    return bind


def cublas_dense(problem: Spmm, device: Any, setting: object) -> Bind:
    """Prepare cublasSgemm with W as a dense matrix."""
    on, gemm = device.blas(), Gemm(problem.m, problem.n, problem.k)
    kept = device.cp.asarray(problem.dense())

    def bind(buffers: Sequence[Any]) -> Launch:
        run = call_of(on, gemm, addresses([kept, *buffers]))
        workspace = cublas.WORKSPACE + int(kept.nbytes)
        return held(run, (kept, *buffers), workspace=workspace, capturable=True, kernels=cublas.KERNELS)

    return bind


VARIANTS: tuple[Variant[Spmm], ...] = (
    row(OPENBLAS, "dense", dense, work=executed),
    row(SUITE, "c-csr", c_csr),
    row(SCIPY, "scipy-csr", scipy_csr),
    row(TORCH, "torch-csr", torch_csr),
    row(CUBLAS, "cublas-dense", cublas_dense, work=executed),
    row(CUDA_SUITE, "cuda-csr", cuda_csr),
    row(CUSPARSE, "cusparse", partial(by_cusparse, "default")),
    row(CUSPARSE, "cusparse-alg1", partial(by_cusparse, "alg1"), roles=()),
    row(CUSPARSE, "cusparse-alg2", partial(by_cusparse, "alg2")),
    row(CUSPARSE, "cusparse-alg3", partial(by_cusparse, "alg3"), roles=()),
)
