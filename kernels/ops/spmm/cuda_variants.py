"""A pruned layer on a GPU: CSR by our own kernel and cuSPARSE, and cuBLAS's dense product of the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kernels import grid
from kernels.launch import Bind, Launch
from kernels.libs import cublas, cusparse
from kernels.libs.cublas import CUBLAS
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cusparse import CUSPARSE
from kernels.ops.gemm import Gemm
from kernels.ops.gemm.cublas import addresses, call_of
from kernels.ops.spmm import cuda
from kernels.ops.spmm.problem import Spmm
from kernels.ops.spmm.variants import executed
from kernels.variant import DEFAULT, Variant, row


def csr(problem: Spmm, device: Any, setting: object) -> Bind:
    """W is brought to the device once, as CSR."""
    kept = [device.cp.asarray(x) for x in problem.weights()]
    weights = dict(zip(cuda.WEIGHTS, addresses(kept), strict=True))
    geometries = cuda.launches(problem, cuda.KERNELS[0])
    device.function(cuda.SOURCE, cuda.KERNELS[0])  # compiled here, not where it is bound

    def bind(buffers: Sequence[Any]) -> Launch:
        b, c = addresses(buffers)
        run = grid.calls(cuda.SOURCE, geometries, {**weights, "b": b, "c": c}, device)

        def call(keep: object = (kept, *buffers)) -> None:
            run()

        workspace = sum(int(x.nbytes) for x in kept)
        return Launch(call, workspace=workspace, capturable=True, kernels=len(geometries))

    return bind


def sparse(algorithm: str, problem: Spmm, device: Any, setting: object) -> Bind:
    """cusparseSpMM by one of its algorithms; all launches share a work area."""
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

        def call(keep: object = (kept, area, *buffers)) -> None:
            run()

        workspace = nbytes + sum(int(x.nbytes) for x in kept)
        return Launch(call, workspace=workspace, capturable=True, kernels=cusparse.KERNELS)

    return bind


def dense(problem: Spmm, device: Any, setting: object) -> Bind:
    """cublasSgemm on W with its zeros."""
    on, whole = device.blas(), Gemm(problem.m, problem.n, problem.k)
    kept = device.cp.asarray(problem.dense())

    def bind(buffers: Sequence[Any]) -> Launch:
        run = call_of(on, whole, addresses([kept, *buffers]))

        def call(keep: object = (kept, *buffers)) -> None:
            run()

        workspace = cublas.WORKSPACE + int(kept.nbytes)
        return Launch(call, workspace=workspace, capturable=True, kernels=cublas.KERNELS)

    return bind


def _by_cusparse(name: str, algorithm: str, roles: tuple[str, ...]) -> Variant[Spmm]:
    prepare = partial(sparse, algorithm)
    return row(CUSPARSE, name, prepare, roles=roles)


VARIANTS: tuple[Variant[Spmm], ...] = (
    row(CUBLAS, "cublas-dense", dense, work=executed),
    row(CUDA_SUITE, "cuda-csr", csr),
    _by_cusparse("cusparse", "default", (DEFAULT,)),
    _by_cusparse("cusparse-alg1", "alg1", ()),
    _by_cusparse("cusparse-alg2", "alg2", (DEFAULT,)),
    _by_cusparse("cusparse-alg3", "alg3", ()),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
