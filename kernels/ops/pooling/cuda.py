"""How the kernels of pooling.cu are launched."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Argument, Geometry
from kernels.ops.pooling.problem import Pooling

SOURCE = Path(__file__).with_name("pooling.cu")
KERNELS = tuple(f"pooling_{pool}_{phase}" for pool in ("max", "avg") for phase in ("forward", "dgrad"))
THREADS = 256  # of a block, each with a result or a pixel
PLACES = 1 << 31  # of an image fit into 32 bits


def kernel(problem: Pooling) -> str:
    """The name of the last kernel that solves it."""
    return f"pooling_{problem.pool}_{'dgrad' if problem.phase == 'step' else 'forward'}"


def launches(problem: Pooling, name: str) -> tuple[Geometry, ...]:
    """One launch, of a step two. Raises UsageError."""
    if why := refused(problem):
        raise UsageError(why)
    if name != kernel(problem):
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}: take {kernel(problem)}")
    relu: Argument = ("int64", int(problem.relu == "yes"))
    forward = _over(problem, f"pooling_{problem.pool}_forward", problem.edge, ("x", "y"), relu)
    if problem.phase == "forward":
        return (forward,)
    maximum = problem.pool == "max"
    read, more = (("x", "dy"), (relu,)) if maximum else (("dy",), ())
    return forward, _over(problem, name, problem.size, (*read, "dx"), *more)


def refused(problem: Pooling) -> str | None:
    """Why there is no kernel for it."""
    large = problem.inputs // problem.images >= PLACES
    return f"--size {problem.size}, {problem.channels} channels: an image has fewer than 2^31 places" if large else None


def _over(problem: Pooling, name: str, edge: int, operands: tuple[str, ...], *more: Argument) -> Geometry:
    """A thread for each element of images of this edge, whole blocks for each image."""
    blocks = -(-problem.channels * edge**2 // THREADS)
    sizes = (blocks, problem.channels, problem.size, problem.edge, problem.window, problem.layout == "nhwc")
    places: tuple[Argument, ...] = tuple(("operand", x) for x in operands)
    numbers: tuple[Argument, ...] = tuple(("int64", int(x)) for x in sizes)
    return Geometry(name, (problem.images * blocks, 1, 1), (THREADS, 1, 1), (*places, *numbers, *more))
