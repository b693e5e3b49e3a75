"""A pruned layer on a GPU: CSR by our kernel and cuSPARSE, dense products by cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels import grid
from kernels.launch import Bind, Launch, held
from kernels.libs import cublas, cusparse
from kernels.nvcc import Geometry, over
from kernels.ops.gemm import Gemm
from kernels.ops.gemm.cublas import addresses, call_of
from kernels.ops.spmm.problem import Spmm

SOURCE = Path(__file__).with_name("csr.cu")
KERNELS = ("csr_rows",)
THREADS = 128
WEIGHTS = ("values", "columns", "pointers")  # of W, in the order of Spmm.weights


def launches(problem: Spmm, name: str) -> tuple[Geometry, ...]:
    """Return the one launch of `problem`."""
    across = -(-problem.n // THREADS)
    return (over(name, problem.m * across, THREADS, ("b", "c", *WEIGHTS), problem.n, across),)


def csr(problem: Spmm, device: Any, setting: object) -> Bind:
    """Prepare our CSR kernel; W is copied to the device once."""
    kept = [device.cp.asarray(x) for x in problem.weights()]
    weights = dict(zip(WEIGHTS, addresses(kept), strict=True))
    geometries = launches(problem, KERNELS[0])
    device.function(SOURCE, KERNELS[0])  # compiled here, not where it is bound

    def bind(buffers: Sequence[Any]) -> Launch:
        b, c = addresses(buffers)
        run = grid.calls(SOURCE, geometries, {**weights, "b": b, "c": c}, device)
        workspace = sum(int(x.nbytes) for x in kept)
        return held(run, (kept, *buffers), workspace=workspace, capturable=True, kernels=len(geometries))

    return bind


def sparse(algorithm: str, problem: Spmm, device: Any, setting: object) -> Bind:
    """Prepare cusparseSpMM by one of its algorithms; all launches share a work area."""
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


def dense(problem: Spmm, device: Any, setting: object) -> Bind:
    """Prepare cublasSgemm on W with its zeros."""
    on, gemm = device.blas(), Gemm(problem.m, problem.n, problem.k)
    kept = device.cp.asarray(problem.dense())

    def bind(buffers: Sequence[Any]) -> Launch:
        run = call_of(on, gemm, addresses([kept, *buffers]))
        workspace = cublas.WORKSPACE + int(kept.nbytes)
        return held(run, (kept, *buffers), workspace=workspace, capturable=True, kernels=cublas.KERNELS)

    return bind
