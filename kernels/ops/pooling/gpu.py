"""Pooling by our CUDA kernels and by cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.launch import in_order
from kernels.libs import cudnn, cudnn_layers
from kernels.nvcc import Geometry, over
from kernels.ops.gemm.cublas import addresses
from kernels.ops.pooling.problem import STRIDE, Pooling

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.problem import Array, Arrays
    from kernels.setting import Setting


SOURCE = Path(__file__).with_name("pooling.cu")
KERNELS = tuple(f"pooling_{pool}_{phase}" for pool in ("max", "avg") for phase in ("forward", "dgrad"))
THREADS = 256  # of a block, a result or a pixel each
PLACES = 1 << 31  # of an image, which fit into 32 bits


def kernel(problem: Pooling) -> str:
    """Return the name of the last kernel that solves `problem`."""
    return f"pooling_{problem.pool}_{'dgrad' if problem.phase == 'step' else 'forward'}"


def launches(problem: Pooling, name: str) -> tuple[Geometry, ...]:
    """Return the forward launch, for a step also the gradient's."""
    relu = int(problem.relu == "yes")
    forward = _over(problem, f"pooling_{problem.pool}_forward", problem.edge, ("x", "y"), relu)
    if problem.phase == "forward":
        return (forward,)
    maximum = problem.pool == "max"
    read, more = (("x", "dy"), (relu,)) if maximum else (("dy",), ())
    return forward, _over(problem, name, problem.size, (*read, "dx"), *more)


def refused(problem: Pooling) -> str | None:
    """Return why no kernel can run `problem`, or None."""
    large = problem.inputs // problem.images >= PLACES
    return f"--size {problem.size}, {problem.channels} channels: an image has fewer than 2^31 places" if large else None


def _over(problem: Pooling, name: str, edge: int, operands: tuple[str, ...], *more: int) -> Geometry:
    """Return a launch of one thread an element of images of width `edge`, in whole blocks for each image."""
    blocks = -(-problem.channels * edge**2 // THREADS)
    sizes = (blocks, problem.channels, problem.size, problem.edge, problem.window, int(problem.layout == "nhwc"))
    return over(name, problem.images * blocks, THREADS, operands, *sizes, *more)


@dataclass(frozen=True)
class AnyMaximum(Pooling):
    """Pooling whose gradient may go to any of equal maxima: cuDNN does not specify which."""

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        import numpy as np

        bounds = super().bound(x, want, u)
        if self.phase == "step" and self.pool == "max":
            views, slope = np.stack(self.windows(self.planes(x["x"]))), np.abs(self.planes(x["dy"]))
            top = views == views.max(axis=0)
            tied = np.where(top & (top.sum(axis=0) > 1), slope, 0)
            for view, more in zip(self.windows(self.planes(bounds["dx"])), tied, strict=True):
                view += more
        return bounds


def any_maximum(problem: Pooling) -> Pooling:
    """Return `problem` with bounds that accept any of equal maxima."""
    return AnyMaximum(**{x.name: getattr(problem, x.name) for x in fields(problem)})


def prepare(problem: Pooling, device: Any, setting: Setting) -> Bind:
    """Prepare cuDNN's forward call, for a step also the gradient's."""
    on = device.dnn()
    how = cudnn_layers.pooling(on, problem.pool, problem.window, STRIDE)
    large, small = (
        cudnn.tensor(on, (problem.images, problem.channels, edge, edge), problem.layout)
        for edge in (problem.size, problem.edge)
    )
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Any]) -> Launch:
        at = dict(zip(names, addresses(buffers), strict=True))
        x, y = (large, at["x"]), (small, at["y"])
        calls = [cudnn_layers.pool(on, how, x, y)]
        if problem.phase == "step":
            calls.append(cudnn_layers.pool_gradient(on, how, y, (small, at["dy"]), x, (large, at["dx"])))
        return in_order(calls, buffers, cudnn_layers.KERNELS, kernel=cudnn.kernel())

    return bind


def accepts(problem: Pooling) -> str | None:
    """Return why cuDNN's calls cannot run `problem`, or None."""
    if problem.relu == "yes":
        return "cuDNN's poolings have no ReLU: --relu no"
    return cudnn_layers.too_many(problem.inputs)
