"""How the kernels of activation.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Argument, Geometry
from kernels.ops.activation.problem import Activation

SOURCE = Path(__file__).with_name("activation.cu")
KINDS = ("relu", "sigmoid", "tanh", "exp")
KERNELS = tuple(f"{kind}_{phase}" for phase in ("forward", "dgrad") for kind in KINDS)
THREADS = 256  # of a block, each with four elements


def kernel(problem: Activation) -> str:
    """The name of the kernel that solves it."""
    return f"{problem.kind}_{problem.phase}"


def launches(problem: Activation, name: str) -> tuple[Geometry, ...]:
    """One launch, four elements a thread; in place, input and output are one address. Raises UsageError."""
    if name != kernel(problem):
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}: take {kernel(problem)}")
    places: tuple[Argument, ...] = tuple(("operand", source) for source in (*problem.sources, "y"))
    blocks = -(-problem.count // (4 * THREADS))
    return (Geometry(name, (blocks, 1, 1), (THREADS, 1, 1), (*places, ("int64", problem.count))),)
