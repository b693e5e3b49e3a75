"""Products on a GPU by the suite's kernels, CuPy, PyTorch, PyCUDA, scikit-cuda and Numba."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kernels import nvcc
from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.libs import cublas, numba, pycuda, skcuda, torch_cuda
from kernels.nvcc import Geometry
from kernels.ops.gemm.cublas import addresses, words
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Operand, Problem

SOURCE = Path(__file__).with_name("gemm.cu")
TILES = {"sgemm_naive": (8, 32), "sgemm_tiled": (64, 64)}  # rows and columns of C that a block computes
BLOCKS = {"sgemm_naive": (32, 8, 1), "sgemm_tiled": (64, 1, 1)}


def launches(problem: Gemm, kernel: str) -> tuple[Geometry, ...]:
    """Return the geometry of one launch; a transposed operand has its two strides exchanged."""
    rows, cols = TILES[kernel]
    a, b, c = problem.operands()
    sizes = (problem.m, problem.n, problem.k, *_strides(a, problem.trans[0]), *_strides(b, problem.trans[1]), c.ld)
    return (
        Geometry(
            kernel,
            (-(-problem.m // rows) * -(-problem.n // cols), 1, 1),
            BLOCKS[kernel],
            (
                *(("operand", x.name) for x in (a, b, c)),
                ("float32", problem.alpha),
                ("float32", problem.beta),
                *(("int64", size) for size in sizes),
            ),
        ),
    )


def _strides(x: Operand, trans: str) -> tuple[int, int]:
    """Return op(X)'s strides in elements: from row to row, and from column to column."""
    return (x.ld, 1) if trans == "n" else (1, x.ld)


TILE = 16
NAIVE_ROWS, NAIVE_COLS = TILES["sgemm_naive"]

Pair = tuple[int, int]

cuda: Any = None  # numba.cuda after the first call of kernels(); global because Numba's simulator expects it there


def geometry(kernel: str, m: int, n: int, tile: int = TILE) -> tuple[int, Pair]:
    """Return the number of blocks, numbered row by row over C, and a block's threads as (x, y)."""
    rows, cols = (tile, tile) if kernel == "sgemm_tiled" else (NAIVE_ROWS, NAIVE_COLS)
    return -(-m // rows) * -(-n // cols), (cols, rows)


@functools.cache
def kernels(tile: int = TILE) -> dict[str, Any]:
    """Return the jitted kernels by name, launched as kernel[blocks, threads](a, b, c, alpha, beta).

    Cached, so that each kernel is compiled once for each layout of its operands. Raises Unavailable.
    """
    global cuda
    cuda = numba.cuda()
    float32 = numba.load().float32
    return {f.__name__: cuda.jit(f) for f in (_naive(float32), _tiled(float32, tile))}


def _naive(float32: Any) -> Any:

    def sgemm_naive(a: Any, b: Any, c: Any, alpha: Any, beta: Any) -> None:
        across = (c.shape[1] + NAIVE_COLS - 1) // NAIVE_COLS
        i = cuda.blockIdx.x // across * NAIVE_ROWS + cuda.threadIdx.y
        j = cuda.blockIdx.x % across * NAIVE_COLS + cuda.threadIdx.x
        if i < c.shape[0] and j < c.shape[1]:
            total = float32(0)
            for p in range(a.shape[1]):
                total += a[i, p] * b[p, j]
            if beta == 0:  # C is not read: it may hold NaN
                c[i, j] = alpha * total
            else:
                c[i, j] = alpha * total + beta * c[i, j]

    return sgemm_naive


def _tiled(float32: Any, tile: int) -> Any:
    pitch = tile + 1  # a column then lies in different banks

    def sgemm_tiled(a: Any, b: Any, c: Any, alpha: Any, beta: Any) -> None:
        # One array a line, because the simulator identifies shared arrays by their line.
        left = cuda.shared.array((tile, pitch), float32)
        right = cuda.shared.array((tile, pitch), float32)
        across = (c.shape[1] + tile - 1) // tile
        y, x = cuda.threadIdx.y, cuda.threadIdx.x
        i = cuda.blockIdx.x // across * tile + y
        j = cuda.blockIdx.x % across * tile + x
        total = float32(0)
        for start in range(0, a.shape[1], tile):
            left[y, x] = a[i, start + x] if i < a.shape[0] and start + x < a.shape[1] else 0
            right[y, x] = b[start + y, j] if start + y < b.shape[0] and j < b.shape[1] else 0
            cuda.syncthreads()
            for p in range(tile):
                total += left[y, p] * right[p, x]
            cuda.syncthreads()
        if i < c.shape[0] and j < c.shape[1]:
            if beta == 0:
                c[i, j] = alpha * total
            else:
                c[i, j] = alpha * total + beta * c[i, j]

    return sgemm_tiled


TILED = "sgemm_tiled"
LETTERS = {"operand": "P", "float32": "f", "int64": "q"}  # codes of module `struct`, by kind of argument


def cupy_raw(problem: Gemm, device: Any, setting: object) -> Bind:
    """Prepare CuPy's thin binding of cublasSgemm and cublasGemmEx on the handle that CuPy keeps.

    CuPy queries and sets the handle's stream at each call, so that the launch cannot be captured.
    """
    binding: Any = importlib.import_module("cupy_backends.cuda.libs.cublas")
    handle = device.cp.cuda.Device().cublas_handle
    factors = np.array([problem.alpha, problem.beta], np.float32)
    alpha, beta = factors.ctypes.data, factors.ctypes.data + 4

    def bind(buffers: Sequence[Any]) -> Launch:
        flags, sizes, _, first, second, out = words(problem, addresses(buffers))
        if problem.dtype == "fp32":
            call = partial(binding.sgemm, handle, *flags, *sizes, alpha, *first, *second, beta, *out)
        else:
            kind, compute = cublas.TYPES[problem.dtype]
            typed = [(pointer, kind, leading) for pointer, leading in (first, second, out)]
            inputs = (alpha, *typed[0], *typed[1])
            how = (compute, cublas.DEFAULT_ALGORITHM)
            call = partial(binding.gemmEx, handle, *flags, *sizes, *inputs, beta, *typed[2], *how)
        return held(call, (factors, *buffers), kernels=cublas.KERNELS)

    return bind


def cupy_matmul(problem: Gemm, device: Any, setting: object) -> Bind:
    """Prepare cupy.matmul(a, b, out=c), which copies padded operands; TF32 only under CUPY_TF32=1."""
    kernels = cublas.KERNELS + (len(problem.operands()) if problem.ld_pad else 0)

    def bind(buffers: Sequence[Any]) -> Launch:
        a, b, c = buffers
        left = a if problem.trans[0] == "n" else a.T
        right = b if problem.trans[1] == "n" else b.T
        return Launch(partial(device.cp.matmul, left, right, out=c), kernels=kernels)

    return bind


def scikit(problem: Gemm, device: Any, setting: object) -> Bind:
    on = skcuda.open_handle(device.stream.ptr)

    def bind(buffers: Sequence[Any]) -> Launch:
        call = skcuda.sgemm(on, *words(problem, addresses(buffers)))
        return held(call, buffers, kernels=cublas.KERNELS)

    return bind


def tiles_by_pycuda(device: Any) -> Callable[[Gemm, Sequence[int]], Callable[[], None]]:
    """Return a function (product, addresses) that returns a call launching `sgemm_tiled` by PyCUDA.

    PyCUDA launches on its stream, which events order with the suite's. Raises BuildError, LaunchError, Unavailable.
    """
    on = pycuda.open_side(device.stream.ptr)
    kernel = pycuda.function(nvcc.cubin(SOURCE, device.arch), TILED)

    def launch(problem: Gemm, places: Sequence[int]) -> Callable[[], None]:
        (geometry,) = launches(problem, TILED)
        given = dict(zip((x.name for x in problem.operands()), places, strict=True))
        arguments = [
            (
                LETTERS[kind],
                given[str(value)] if kind == "operand" else float(value) if kind == "float32" else int(value),
            )
            for kind, value in geometry.arguments
        ]
        return pycuda.launch(on, kernel, geometry.grid, geometry.block, arguments)

    return launch


def by_pycuda(problem: Gemm, device: Any, setting: object) -> Bind:
    """Prepare the suite's tiled kernel, launched by PyCUDA."""
    launch = tiles_by_pycuda(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        call = launch(problem, addresses(buffers))
        return held(call, buffers, kernels=1 + pycuda.TIES)

    return bind


def torch_mm(problem: Gemm, device: Any, setting: object) -> Bind:
    """Prepare torch.mm into c; each call sets TF32 for its problem, as the switch is process-wide."""
    torch = torch_cuda.load(device)
    choose, product = torch_cuda.arithmetic(torch, problem.dtype), torch.mm

    def bind(buffers: Sequence[Any]) -> Launch:
        a, b, c = (torch_cuda.tensor(torch, x) for x in buffers)
        left = a if problem.trans[0] == "n" else a.t()
        right = b if problem.trans[1] == "n" else b.t()

        def run(keep: object = buffers) -> None:
            choose()
            product(left, right, out=c)

        return Launch(run, kernels=cublas.KERNELS)

    return bind


def by_numba(kernel: str) -> Callable[[Gemm, Any, object], Bind]:
    """Return a `prepare` of a Numba kernel, compiled for the layout of the problem's operands."""

    def prepare(problem: Gemm, device: Any, setting: object) -> Bind:
        cuda = numba.cuda()
        function, stream = kernels()[kernel], cuda.external_stream(device.stream.ptr)
        factors = np.float32(problem.alpha), np.float32(problem.beta)

        def passed(buffers: Sequence[Any]) -> tuple[Any, ...]:
            a, b, c = buffers
            left, right = a if problem.trans[0] == "n" else a.T, b if problem.trans[1] == "n" else b.T
            return (*map(cuda.as_cuda_array, (left, right, c)), *factors)

        small = replace(problem, m=2, n=2, k=2)
        blocks, threads = geometry(kernel, small.m, small.n)
        numba.compiled(function[blocks, threads, stream], passed(unread(small, device)))
        blocks, threads = geometry(kernel, problem.m, problem.n)
        configured = function[blocks, threads, stream]

        return lambda buffers: held(partial(configured, *passed(buffers)), buffers, kernels=1)

    return prepare


def unread(problem: Problem, device: Any) -> list[Any]:
    """Return operands for a launch whose result is not read."""
    return [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
