"""How the kernels of dropout.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.nvcc import Argument, Geometry, refuse_unknown
from kernels.ops.dropout.problem import Dropout

SOURCE = Path(__file__).with_name("dropout.cu")
KERNELS = ("dropout_key", "dropout_both")
THREADS, WARP, KEY = 256, 32, 4  # of a block; of the one that makes the key; bytes of it
ALL = 1 << 32  # what a share is a share of


def kernel(problem: Dropout) -> str:
    """The name of the last kernel that solves it."""
    return "dropout_both"


def launches(problem: Dropout, name: str) -> tuple[Geometry, ...]:
    """The key, then both ways. Raises UsageError."""
    refuse_unknown(SOURCE, name, KERNELS)
    key: Argument = ("workspace", KEY)
    places: tuple[Argument, ...] = tuple(("operand", x.name) for x in problem.operands())
    numbers: tuple[Argument, ...] = (
        ("float32", problem.scale),
        ("int64", problem.units),
        ("int64", int(problem.rate * ALL)),
    )
    blocks = -(-problem.units // THREADS)
    return (
        Geometry("dropout_key", (1, 1, 1), (WARP, 1, 1), (key,)),
        Geometry("dropout_both", (blocks, 1, 1), (THREADS, 1, 1), (*places, key, *numbers)),
    )
