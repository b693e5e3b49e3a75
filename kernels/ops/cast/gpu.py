"""Launch geometry of the kernels of cast.cu."""

from __future__ import annotations

from pathlib import Path

from kernels.nvcc import Argument, Geometry, refuse_other
from kernels.ops.cast.problem import KINDS, Cast

SOURCE = Path(__file__).with_name("cast.cu")
THREADS, EACH = 256, 4  # of a block; elements of a thread


def _named(kind: str) -> str:
    return f"cast_{kind.replace('-', '_')}"


KERNELS = tuple(map(_named, KINDS))


def kernel(problem: Cast) -> str:
    """Return the name of the kernel that solves `problem`."""
    return _named(problem.convert)


def launches(problem: Cast, name: str) -> tuple[Geometry, ...]:
    """Return the one launch of `problem`. Raises UsageError."""
    refuse_other(SOURCE, name, problem, kernel(problem))
    places: tuple[Argument, ...] = tuple(("operand", x.name) for x in problem.operands())
    blocks = -(-problem.values // (EACH * THREADS))
    return (Geometry(name, (blocks, 1, 1), (THREADS, 1, 1), (*places, ("int64", problem.values))),)
