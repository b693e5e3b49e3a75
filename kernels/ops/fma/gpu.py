"""How the kernel of fma.cu is launched."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Geometry
from kernels.ops.fma.problem import CHAINS, ISA, Fma

SOURCE = Path(__file__).with_name("fma.cu")
KERNELS = (f"fma_chains{CHAINS}",)
THREADS = ISA["cuda"][0]


def launches(problem: Fma, kernel: str, processors: int | None = None) -> tuple[Geometry, ...]:
    """One launch, a block a multiprocessor: the peak of a device is a problem of all that it has.

    `processors`, where given, are the device's: a problem for fewer is no peak of it, one for more takes two
    turns. Raises UsageError.
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
