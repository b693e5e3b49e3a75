"""The kernels of gemm.cu in Numba: the same two steps of the ladder, in Python.

op(A) and op(B) are arrays with strides of their own, so a transposed operand is passed as its view `.T`.
Under NUMBA_ENABLE_CUDASIM=1, set before Numba is imported, they run on the CPU, a system thread each.
"""

from __future__ import annotations

import functools
from typing import Any

from kernels.libs import numba

TILE = 16
NAIVE_ROWS, NAIVE_COLS = 8, 32

Pair = tuple[int, int]

cuda: Any = None  # numba.cuda from the first call of kernels() on: the simulator looks for it among the globals


def geometry(kernel: str, m: int, n: int, tile: int = TILE) -> tuple[int, Pair]:
    """Blocks, numbered row by row over C, and threads of a block, columns first."""
    rows, cols = (tile, tile) if kernel == "sgemm_tiled" else (NAIVE_ROWS, NAIVE_COLS)
    return -(-m // rows) * -(-n // cols), (cols, rows)


@functools.cache
def kernels(tile: int = TILE) -> dict[str, Any]:
    """The jitted kernels by name, each to be launched as kernel[blocks, threads](a, b, c, alpha, beta).

    Made once, so that each is compiled once for a layout of its operands. Raises Unavailable.
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
        # Each on a line of its own: the simulator tells shared arrays apart by their line.
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
