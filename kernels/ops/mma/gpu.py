"""Launch geometry of the kernels of mma.cu and wgmma.cu."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Geometry
from kernels.ops.mma.problem import Mma

SOURCES = {unit: Path(__file__).with_name(f"{unit}.cu") for unit in ("mma", "wgmma")}
TYPES = ("tf32", "bf16", "fp16")
KERNELS = {unit: tuple(f"{unit}_{dtype}" for dtype in TYPES) for unit in SOURCES}
THREADS = 256  # of a block, of which a multiprocessor runs one: eight warps, two warpgroups
ARCHS = {"mma": "", "wgmma": "sm_90a"}  # wgmma is in no other architecture, before or after


def kernel(problem: Mma) -> str:
    """Return the name of the kernel that solves `problem`."""
    return f"{problem.unit}_{problem.dtype}"


def launches(problem: Mma, name: str) -> tuple[Geometry, ...]:
    """Return one launch, a block a multiprocessor. Raises UsageError."""
    if name != kernel(problem):
        raise UsageError(f"{name} is not for {problem.name}: take {kernel(problem)}")
    return (
        Geometry(
            name,
            (problem.processors, 1, 1),
            (THREADS, 1, 1),
            (*(("operand", x.name) for x in problem.operands()), ("int64", problem.steps)),
            arch=ARCHS[problem.unit],
        ),
    )
