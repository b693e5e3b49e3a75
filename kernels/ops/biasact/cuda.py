"""How the kernels of biasact.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Argument, Geometry
from kernels.ops.biasact.problem import BiasAct

SOURCE = Path(__file__).with_name("biasact.cu")
KERNELS = ("biasact_forward", "biasact_dgrad")
THREADS, COLS = 256, 32  # of a block: elements forward; columns of the gradient


def kernel(problem: BiasAct) -> str:
    """The name of the kernel that solves it."""
    return f"biasact_{problem.phase}"


def refused(problem: BiasAct) -> str | None:
    """For rows that know no product."""
    return "no product goes before it: --terms 0" if problem.terms else None


def launches(problem: BiasAct, name: str) -> tuple[Geometry, ...]:
    """One launch, without the product before it. Raises UsageError."""
    if name != kernel(problem) or problem.terms:
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}: take {kernel(problem)} without a product")
    forward = problem.phase == "forward"
    places: tuple[Argument, ...] = tuple(("operand", x.name) for x in problem.operands())
    blocks = -(-problem.count // THREADS) if forward else -(-problem.cols // COLS)
    sizes: tuple[Argument, ...] = (("int64", problem.count if forward else problem.rows), ("int64", problem.cols))
    return (Geometry(name, (blocks, 1, 1), (THREADS, 1, 1), (*places, *sizes)),)
