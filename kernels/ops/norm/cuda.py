"""How the kernels of norm.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Argument, Geometry
from kernels.ops.norm.problem import Norm
from kernels.ops.norm.truth import EPSILON

SOURCE = Path(__file__).with_name("norm.cu")
READ_AND_WRITTEN = {
    "norm_train_forward": ("x", "scale", "shift", "y", "mean", "rstd"),
    "norm_train_dgrad": ("x", "scale", "dy", "mean", "rstd", "dx", "dscale", "dshift"),
}
KERNELS = tuple(READ_AND_WRITTEN)
THREADS = 256  # of a block, which has a channel
ELEMENTS = 1 << 31  # of a channel are counted in 32 bits


def kernel(problem: Norm) -> str:
    """The name of the last kernel that solves it."""
    return f"norm_{problem.mode}_{'dgrad' if problem.step else 'forward'}"


def refused(problem: Norm) -> str | None:
    """Why there is no kernel for it."""
    if (problem.method, problem.mode) != ("batch", "train"):
        return "written for --method batch --mode train"
    many = problem.images * problem.size**2 >= ELEMENTS
    return f"--images {problem.images}: a channel has fewer than 2^31 elements" if many else None


def launches(problem: Norm, name: str) -> tuple[Geometry, ...]:
    """One launch, of a step two. Raises UsageError."""
    if why := refused(problem):
        raise UsageError(f"{SOURCE.name}: {why}")
    if name != kernel(problem):
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}: take {kernel(problem)}")
    return tuple(_launch(problem, one) for one in KERNELS[: 1 + problem.step])


def _launch(problem: Norm, name: str) -> Geometry:
    places: tuple[Argument, ...] = tuple(("operand", x) for x in READ_AND_WRITTEN[name])
    sizes: tuple[Argument, ...] = tuple(("int64", x) for x in (problem.images, problem.channels, problem.size**2))
    small: tuple[Argument, ...] = (("float32", EPSILON),) if name == KERNELS[0] else ()
    return Geometry(name, (problem.channels, 1, 1), (THREADS, 1, 1), (*places, *sizes, *small))
