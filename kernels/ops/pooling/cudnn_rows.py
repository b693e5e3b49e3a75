"""Pooling by cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernels.launch import in_order
from kernels.libs import cuda, cudnn, cudnn_layers
from kernels.ops.gemm.cublas import addresses
from kernels.ops.pooling.problem import STRIDE, Pooling
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch, Setting


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
    return "cuDNN's poolings have no ReLU: --relu no" if problem.relu == "yes" else None


VARIANT: Variant[Pooling] = Variant(
    "cudnn", "cuda", "cudnn", prepare, accepts=accepts, missing=cuda.libraries_missing, python=True
)
