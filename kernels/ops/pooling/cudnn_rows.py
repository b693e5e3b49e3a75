"""Pooling by cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from kernels.launch import in_order
from kernels.libs import cuda, cudnn, cudnn_layers
from kernels.ops.gemm.cublas import addresses
from kernels.ops.pooling.problem import STRIDE, Pooling
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.problem import Array, Arrays
    from kernels.setting import Setting


@dataclass(frozen=True)
class AnyMaximum(Pooling):
    """Whose gradient goes to any of equal maxima: cuDNN does not say to which."""

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
    """The same, judged by its bounds."""
    return AnyMaximum(**{x.name: getattr(problem, x.name) for x in fields(problem)})


def prepare(problem: Pooling, device: Any, setting: Setting) -> Bind:
    """A call forward, of a step another one."""
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
    """Why cuDNN's calls cannot do it."""
    if problem.relu == "yes":
        return "cuDNN's poolings have no ReLU: --relu no"
    return cudnn_layers.too_many(problem.inputs)


VARIANT: Variant[Pooling] = Variant(
    "cudnn", "cuda", "cudnn", prepare, accepts=accepts, missing=cuda.libraries_missing, python=True, judged=any_maximum
)
