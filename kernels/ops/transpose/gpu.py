"""Launch geometry of the kernels of transpose.cu."""

from __future__ import annotations

from pathlib import Path

from kernels.nvcc import Geometry, refuse_unknown
from kernels.ops.transpose.problem import Transpose

SOURCE = Path(__file__).with_name("transpose.cu")
KERNELS = ("transpose_naive", "transpose_tiled")
TILE, ROWS, DOWN = 32, 8, 64  # a block of 32 × 8 threads does two tiles of 32 × 32, one below the other


def launches(problem: Transpose, kernel: str) -> tuple[Geometry, ...]:
    """Return one launch, a block for two tiles. Raises UsageError."""
    refuse_unknown(SOURCE, kernel, KERNELS)
    x, y = problem.operands()
    return (tiles(kernel, problem.rows, problem.cols, x.ld, y.ld),)


def tiles(kernel: str, rows: int, cols: int, ldx: int, ldy: int) -> Geometry:
    """Return a launch of one block for each 64 × 32 elements of x, rows × cols.

    Both leading dimensions count elements.
    """
    count = -(-rows // DOWN) * -(-cols // TILE)
    sizes = (rows, cols, ldx, ldy)
    return Geometry(
        kernel,
        (count, 1, 1),
        (TILE, ROWS, 1),
        (("operand", "x"), ("operand", "y"), *(("int64", size) for size in sizes)),
    )
