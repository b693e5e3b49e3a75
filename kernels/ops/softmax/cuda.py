"""How the kernels of softmax.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Argument, Geometry
from kernels.ops.softmax.problem import Softmax

SOURCE = Path(__file__).with_name("softmax.cu")
KERNELS = ("softmax_index", "softmax_onehot")
THREADS = 256


def kernel(problem: Softmax) -> str:
    """The name of the kernel that solves it."""
    return f"softmax_{problem.labels.replace('-', '')}"


def launches(problem: Softmax, name: str) -> tuple[Geometry, ...]:
    """One launch, a block a row. Raises UsageError."""
    if name != kernel(problem) or (problem.before, problem.want) != ("none", "step"):
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}: take {kernel(problem)}")
    places: tuple[Argument, ...] = tuple(("operand", x.name) for x in problem.operands())
    return (Geometry(name, (problem.batch, 1, 1), (THREADS, 1, 1), (*places, ("int64", problem.classes))),)
