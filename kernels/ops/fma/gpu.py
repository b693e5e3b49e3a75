"""Launch geometry of the kernel of fma.cu."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Geometry
from kernels.ops.fma.problem import CHAINS, ISA, Fma

SOURCE = Path(__file__).with_name("fma.cu")
KERNELS = (f"fma_chains{CHAINS}",)
THREADS = ISA["cuda"][0]


def launches(problem: Fma, kernel: str, processors: int | None = None) -> tuple[Geometry, ...]:
    """Return one launch of a block a multiprocessor: a device's peak is a problem of all of them.

    `processors`, where given, is the device's number: fewer blocks miss the peak, more need a second wave.
    Raises UsageError.
    """
    if problem.isa != "cuda" or kernel != f"fma_chains{problem.chains}" or kernel not in KERNELS:
        there = ", ".join(KERNELS)
        raise UsageError(f"{kernel} of {SOURCE.name} is not for {problem.name}: there is {there}, of isa:cuda")
    if processors not in (None, problem.processors):
        raise UsageError(f"{problem.name} is not for {processors} multiprocessors: take processors:{processors}")
    return (
        Geometry(
            kernel,
            (problem.processors, 1, 1),
            (THREADS, 1, 1),
            (("operand", "d"), ("operand", "x"), ("int64", problem.steps)),
        ),
    )
