"""How the kernels of launch.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Geometry
from kernels.ops.launch.problem import Calls

SOURCE = Path(__file__).with_name("launch.cu")
BLOCKS = {"launch_empty": (32, 1, 1), "launch_gemm": (8, 8, 1)}


def launches(problem: Calls, kernel: str) -> tuple[Geometry, ...]:
    """One launch of one block for each call of the chain, all alike. Raises UsageError."""
    if kernel != f"launch_{problem.kernel}":
        raise UsageError(f"{kernel} of {SOURCE.name} is not for {problem.name}: take launch_{problem.kernel}")
    one = Geometry(kernel, (1, 1, 1), BLOCKS[kernel], tuple(("operand", x.name) for x in problem.operands()))
    return (one,) * problem.chain
