"""Products on one core in Numba: the textbook loops, and blocked loops with B packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import numba
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Array

DEPTH, WIDTH = 256, 512  # rows and columns of a packed block of op(B): 512 KiB, part of a second-level cache
UNROLL = 4  # terms that are added in one pass over a row of C

Loops = Callable[..., None]


def naive(a: Array, b: Array, c: Array, pack: Array, alpha: Any, beta: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = pack[0, 0] * 0
            for p in range(a.shape[1]):
                total += a[i, p] * b[p, j]
            if beta == 0:  # C is not read: it may hold NaN
                c[i, j] = alpha * total
            else:
                c[i, j] = alpha * total + beta * c[i, j]


def blocked(a: Array, b: Array, c: Array, pack: Array, alpha: Any, beta: Any) -> None:
    m, k = a.shape
    n = b.shape[1]
    if beta == 0:  # C is not read: it may hold NaN
        c[:, :] = 0
    else:
        c *= beta
    for first in range(0, n, WIDTH):
        width = min(WIDTH, n - first)
        for start in range(0, k, DEPTH):
            depth = min(DEPTH, k - start)
            padded = (depth + UNROLL - 1) // UNROLL * UNROLL
            for p in range(padded):
                for j in range(width):
                    pack[p, j] = b[start + p, first + j] if p < depth else 0
            for i in range(m):
                row = c[i, first : first + width]
                for p in range(0, padded, UNROLL):
                    w = alpha * a[i, start + p]
                    x = alpha * a[i, start + p + 1] if p + 1 < depth else w * 0
                    y = alpha * a[i, start + p + 2] if p + 2 < depth else w * 0
                    z = alpha * a[i, start + p + 3] if p + 3 < depth else w * 0
                    b0, b1, b2, b3 = pack[p], pack[p + 1], pack[p + 2], pack[p + 3]
                    for j in range(len(row)):
                        row[j] += w * b0[j] + x * b1[j] + y * b2[j] + z * b3[j]


def product(loops: Loops) -> Callable[[Gemm, Any, Any], Bind]:
    """Return a `prepare` of Numba `loops`, compiled at the first bind for the operands' types and layouts."""

    def prepare(problem: Gemm, device: Any, setting: Any) -> Bind:
        if setting.threads != 1:
            raise Unavailable("single-threaded loops: --threads 1")
        # Sums may be contracted to multiply-adds and, in the blocks, kept in vectors; no other freedom.
        function = numba.load().njit(fastmath={"contract"}, error_model="numpy")(loops)
        pack = np.zeros((DEPTH, WIDTH), np.float32)
        alpha, beta = np.float32(problem.alpha), np.float32(problem.beta)

        def bind(buffers: Sequence[Array]) -> Launch:
            a, b, c = buffers
            left = a if problem.trans[0] == "n" else a.T
            right = b if problem.trans[1] == "n" else b.T
            if not function.signatures:
                function.compile(tuple(map(function.typeof_pyval, (left, right, c, pack, alpha, beta))))
            return Launch(partial(function, left, right, c, pack, alpha, beta), workspace=pack.nbytes)

        return bind

    return prepare
