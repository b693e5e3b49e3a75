"""How the kernels of gemm.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.nvcc import Geometry, refuse_unknown
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Operand

SOURCE = Path(__file__).with_name("gemm.cu")
TILES = {"sgemm_naive": (8, 32), "sgemm_tiled": (64, 64)}  # rows and columns of C that a block computes
BLOCKS = {"sgemm_naive": (32, 8, 1), "sgemm_tiled": (64, 1, 1)}


def launches(problem: Gemm, kernel: str) -> tuple[Geometry, ...]:
    """One launch; a transposed operand is one whose two strides are exchanged. Raises UsageError."""
    refuse_unknown(SOURCE, kernel, TILES)
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
    """Elements from a row of op(X) to the next, and from a column to the next."""
    return (x.ld, 1) if trans == "n" else (1, x.ld)
