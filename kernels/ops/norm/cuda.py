"""How the kernels of norm.cu are launched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernels.errors import UsageError
from kernels.nvcc import Argument, Geometry
from kernels.ops.norm.problem import KEPT, Norm
from kernels.ops.norm.truth import ALPHA, EPSILON, WIDTH

SOURCE = Path(__file__).with_name("norm.cu")
READ_AND_WRITTEN = {
    "norm_train_forward": ("x", "scale", "shift", "y", "mean", "rstd"),
    "norm_train_dgrad": ("x", "scale", "dy", "mean", "rstd", "dx", "dscale", "dshift"),
    "norm_frozen_forward": ("x", "scale", "shift", "y"),
    "norm_frozen_dgrad": ("x", "scale", "dy", "dx", "dscale", "dshift"),
    "norm_lrn_forward": ("x", "y"),
    "norm_lrn_dgrad": ("x", "dy", "dx"),
}
KERNELS = tuple(READ_AND_WRITTEN)
THREADS = 256  # of a block, which has a channel of a batch normalization
ELEMENTS = 1 << 31  # of a channel are counted in 32 bits
NUMBERS = {"norm_train_forward": EPSILON, "norm_lrn_forward": ALPHA / WIDTH, "norm_lrn_dgrad": ALPHA / WIDTH}


def kernel(problem: Norm) -> str:
    """The name of the last kernel that solves it."""
    kind = "lrn" if problem.method == "lrn" else problem.mode
    return f"norm_{kind}_{'dgrad' if problem.step else 'forward'}"


def refused(problem: Norm) -> str | None:
    """Why there is no kernel for it."""
    many = problem.images * problem.size**2 >= ELEMENTS
    return f"--images {problem.images}: a channel has fewer than 2^31 elements" if many else None


def launches(problem: Norm, name: str) -> tuple[Geometry, ...]:
    """One launch, of a step two. Raises UsageError."""
    if why := refused(problem):
        raise UsageError(f"{SOURCE.name}: {why}")
    if name != kernel(problem):
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}: take {kernel(problem)}")
    of_step = (name.replace("dgrad", "forward"), name)
    return tuple(_launch(problem, one) for one in (of_step if problem.step else (name,)))


def _launch(problem: Norm, name: str) -> Geometry:
    places: tuple[Argument, ...] = tuple(("operand", x) for x in READ_AND_WRITTEN[name])
    sizes: tuple[Argument, ...] = tuple(("int64", x) for x in (problem.images, problem.channels, problem.size**2))
    small: tuple[Argument, ...] = (("float32", NUMBERS[name]),) if name in NUMBERS else ()
    if problem.mode == "frozen":  # of each of KEPT channels, after which they come again
        kept = [float(x) for array in replace(problem, maps=KEPT).kept() for x in array]
        small = tuple(("float32", x) for x in (*kept, EPSILON))
    blocks = -(-problem.count // THREADS) if problem.method == "lrn" else problem.channels
    return Geometry(name, (blocks, 1, 1), (THREADS, 1, 1), (*places, *sizes, *small))
