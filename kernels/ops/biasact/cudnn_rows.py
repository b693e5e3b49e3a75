"""Bias and ReLU by cuDNN, a call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernels.launch import in_order
from kernels.libs import cuda, cudnn, cudnn_layers
from kernels.ops.biasact.cuda import refused
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.gemm.cublas import addresses
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.setting import Setting


def prepare(problem: BiasAct, device: Any, setting: Setting) -> Bind:
    """The sum, then its maximum where it lies; or the maximum's gradient, then its sums. Rows are images of one pixel,
    columns their channels."""
    on = device.dnn()
    rectifier, adding = cudnn_layers.rectifier(on), cudnn_layers.adding(on)
    whole, row = (cudnn.tensor(on, (rows, problem.cols, 1, 1)) for rows in (problem.rows, 1))
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Any]) -> Launch:
        at = dict(zip(names, addresses(buffers), strict=True))
        x = (whole, at["x"])
        if problem.phase == "forward":
            y = (whole, at["y"])
            summed = cudnn_layers.add(on, adding, x, (row, at["b"]), y)
            calls = [summed, cudnn_layers.rectify(on, rectifier, y, y)]
        else:
            dx = (whole, at["dx"])
            gradient = cudnn_layers.rectify_gradient(on, rectifier, x, (whole, at["dy"]), x, dx)
            calls = [gradient, cudnn_layers.bias_gradient(on, dx, (row, at["db"]))]
        return in_order(calls, buffers, cudnn_layers.KERNELS, kernel=cudnn.kernel())

    return bind


def accepts(problem: BiasAct) -> str | None:
    """Why cuDNN's calls cannot do it."""
    return refused(problem) or cudnn_layers.too_many(problem.count, "--rows")


VARIANT: Variant[BiasAct] = Variant(
    "cudnn", "cuda", "cudnn", prepare, accepts=accepts, missing=cuda.libraries_missing, python=True
)
