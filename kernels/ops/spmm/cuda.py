"""How the kernel of csr.cu is launched."""

from __future__ import annotations

from pathlib import Path

from kernels.nvcc import Argument, Geometry, refuse_unknown
from kernels.ops.spmm.problem import Spmm

SOURCE = Path(__file__).with_name("csr.cu")
KERNELS = ("csr_rows",)
THREADS = 128
WEIGHTS = ("values", "columns", "pointers")  # of W, in the order of Spmm.weights


def launches(problem: Spmm, name: str) -> tuple[Geometry, ...]:
    """One launch. Raises UsageError."""
    refuse_unknown(SOURCE, name, KERNELS)
    across = -(-problem.n // THREADS)
    places: tuple[Argument, ...] = tuple(("operand", x) for x in ("b", "c", *WEIGHTS))
    numbers: tuple[Argument, ...] = (("int64", problem.n), ("int64", across))
    return (Geometry(name, (problem.m * across, 1, 1), (THREADS, 1, 1), (*places, *numbers)),)
