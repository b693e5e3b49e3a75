"""Products on a GPU through the C interfaces of cuBLAS and cuBLASLt, and strategies around them.

The library is column-major: a row-major C = op(A)·op(B) is its Cᵀ = op(B)ᵀ·op(A)ᵀ, the operands swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels import grid
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, held, in_turn
from kernels.libs import cublas, cublaslt
from kernels.ops.gemm.fastest import fastest
from kernels.ops.gemm.problem import Gemm
from kernels.ops.transpose import variants as transpose
from kernels.problem import Operand, Problem

OFFERS = 16  # algorithms of cuBLASLt's heuristic that are timed to find the fastest

Place = tuple[int, int]
Words = tuple[tuple[int, int], tuple[int, int, int], tuple[float, float], Place, Place, Place]


def words(problem: Gemm, places: Sequence[int]) -> Words:
    """Return the column-major call's transpose flags, sizes, (alpha, beta) and operands as (address, ld).

    `places`: addresses of A, B and C; the operands are returned in the order B, A, C.
    """
    a, b, c = problem.operands()
    flags = (int(problem.trans[1] == "t"), int(problem.trans[0] == "t"))
    sizes = (problem.n, problem.m, problem.k)
    at = tuple((place, x.ld) for place, x in zip(places, (a, b, c), strict=True))
    return flags, sizes, (problem.alpha, problem.beta), at[1], at[0], at[2]


def addresses(buffers: Sequence[Any]) -> list[int]:
    return [int(buffer.data.ptr) for buffer in buffers]


def call_of(on: cublas.Handle, problem: Gemm, places: Sequence[int]) -> Callable[[], None]:
    """Return a call of cublasSgemm in its default math mode (no TF32), or cublasGemmEx for other types."""
    if problem.dtype == "fp32":
        return cublas.sgemm(on, *words(problem, places))
    return cublas.gemm_ex(on, problem.dtype, *words(problem, places))


def product(problem: Gemm, device: Any, setting: object) -> Bind:
    on = device.blas()

    def bind(buffers: Sequence[Any]) -> Launch:
        call = call_of(on, problem, addresses(buffers))
        return _launch(call, cublas.WORKSPACE, buffers)

    return bind


def pedantic(problem: Gemm, device: Any, setting: object) -> Bind:
    """Prepare cublasGemmEx with CUBLAS_COMPUTE_32F_PEDANTIC: single precision in every math mode."""
    on = device.blas()

    def bind(buffers: Sequence[Any]) -> Launch:
        call = cublas.gemm_ex(on, "pedantic", *words(problem, addresses(buffers)))
        return _launch(call, cublas.WORKSPACE, buffers)

    return bind


def light(best: bool = False, strict: bool = False) -> Callable[[Gemm, Any, object], Bind]:
    """Return a `prepare` of cuBLASLt with its heuristic's first algorithm or, if `best`, the fastest.

    `best` times up to OFFERS algorithms on scratch operands; `strict` selects the pedantic compute type.
    """

    def prepare(problem: Gemm, device: Any, setting: object) -> Bind:
        on = cublaslt.beside(device.blas())
        flags, sizes, scale, first, second, out = words(problem, (0, 0, 0))
        offers = cublaslt.plan(
            on,
            "pedantic" if strict else problem.dtype,
            flags,
            sizes,
            (first[1], second[1], out[1]),
            cublas.WORKSPACE,
            OFFERS if best else 1,
        )
        if not offers:
            raise Unavailable(f"{on.version} offers no algorithm for {problem.name}")

        def call_by(algorithm: cublaslt.Algorithm, places: Sequence[int]) -> Callable[[], None]:
            a, b, c = places
            return cublaslt.matmul(on, algorithm, scale, b, a, c)

        chosen = offers[0]
        if best:
            block, places = scratch(problem, device)
            chosen = offers[fastest(device, [call_by(offer, places) for offer in offers])]
            del block

        def bind(buffers: Sequence[Any]) -> Launch:
            call = call_by(chosen, addresses(buffers))
            return _launch(call, chosen.workspace, buffers)

        return bind

    return prepare


def scratch(problem: Problem, device: Any) -> tuple[Any, list[int]]:
    """Return scratch operands, filled with random numbers, and their addresses."""
    blocks = []
    for x in problem.operands():
        block = device.allocate(x.nbytes)
        device.scatter(block, 1, x.dtype)
        blocks.append(block)
    return blocks, addresses(blocks)


def strategy(uses: int, tiled: bool) -> Callable[[Gemm, Any, object], Bind]:
    """Return a `prepare` that copies transposed operands, then multiplies the copies as NN `uses` times.

    The suite's tiled kernel transposes if `tiled`, else cublasSgeam.
    """

    def prepare(problem: Gemm, device: Any, setting: object) -> Bind:
        on = device.blas()
        stored = {x.name: x for x in problem.operands()}
        copies = {name: _room(device, stored[name]) for name, flag in zip("ab", problem.trans) if flag == "t"}  # noqa: B905
        # A copy has no padding, and its rows are the stored operand's columns.
        lds = {name: x.shape[0] if name in copies else x.ld for name, x in stored.items()}
        workspace = cublas.WORKSPACE + sum(int(block.nbytes) for block in copies.values())
        sizes, scale = (problem.n, problem.m, problem.k), (problem.alpha, problem.beta)
        kernels = len(copies) * (1 if tiled else cublas.KERNELS) + uses * cublas.KERNELS

        def bind(buffers: Sequence[Any]) -> Launch:
            at = dict(zip("abc", addresses(buffers), strict=True))
            copy_at = {name: int(block.data.ptr) for name, block in copies.items()}
            steps = [transposed(device, on, stored[name], at[name], copy_at[name], tiled) for name in copies]
            a, b, c = ((place, lds[name]) for name, place in (at | copy_at).items())
            steps += [cublas.sgemm(on, (cublas.N, cublas.N), sizes, scale, b, a, c)] * uses

            call = in_turn(steps, (copies, buffers))
            return Launch(call, uses=uses, workspace=workspace, capturable=True, kernels=kernels)

        return bind

    return prepare


def _room(device: Any, x: Operand) -> Any:
    """Allocate the packed transpose of x, filled with random numbers until the first launch."""
    block = device.allocate(4 * x.shape[0] * x.shape[1])
    device.scatter(block, x.shape[0])
    return block


def transposed(
    device: Any, on: cublas.Handle, x: Operand, source: int, target: int, tiled: bool
) -> Callable[[], object]:
    """Return a call that writes xᵀ without padding to address `target`, by our tiles or cublasSgeam."""
    rows, cols = x.shape
    if not tiled:  # column-major: x is cols × rows there, and its transpose rows × cols
        return cublas.sgeam_transpose(on, rows, cols, (source, x.ld), (target, rows))
    geometry = transpose.tiles("transpose_tiled", rows, cols, x.ld, rows)
    return grid.calls(transpose.CUDA_SOURCE, (geometry,), {"x": source, "y": target}, device)


def _launch(call: Callable[[], None], workspace: int, buffers: Sequence[Any]) -> Launch:
    """Return the launch of one product, which keeps alive the buffers whose addresses `call` uses."""
    return held(call, tuple(buffers), workspace=workspace, capturable=True, kernels=cublas.KERNELS)
