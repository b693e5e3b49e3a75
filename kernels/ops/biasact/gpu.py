"""Bias and ReLU by our CUDA kernels and by cuDNN, one call for each step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.errors import UsageError
from kernels.launch import in_order
from kernels.libs import cudnn, cudnn_layers
from kernels.nvcc import Argument, Geometry
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.gemm.cublas import addresses

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.setting import Setting


SOURCE = Path(__file__).with_name("biasact.cu")
KERNELS = ("biasact_forward", "biasact_dgrad")
THREADS, COLS = 256, 32  # of a block: elements forward; columns of the gradient


def kernel(problem: BiasAct) -> str:
    """Return the name of the kernel that solves `problem`."""
    return f"biasact_{problem.phase}"


def refused(problem: BiasAct) -> str | None:
    """Return why a row without a product cannot run `problem`, or None."""
    return "no product goes before it: --terms 0" if problem.terms else None


def launches(problem: BiasAct, name: str) -> tuple[Geometry, ...]:
    """Return the one launch of bias and ReLU, without a product before them. Raises UsageError."""
    if name != kernel(problem) or problem.terms:
        raise UsageError(f"{name} of {SOURCE.name} is not for {problem.name}: take {kernel(problem)} without a product")
    forward = problem.phase == "forward"
    places: tuple[Argument, ...] = tuple(("operand", x.name) for x in problem.operands())
    blocks = -(-problem.count // THREADS) if forward else -(-problem.cols // COLS)
    sizes: tuple[Argument, ...] = (("int64", problem.count if forward else problem.rows), ("int64", problem.cols))
    return (Geometry(name, (blocks, 1, 1), (THREADS, 1, 1), (*places, *sizes)),)


def prepare(problem: BiasAct, device: Any, setting: Setting) -> Bind:
    """Prepare cuDNN's sum and its maximum in place, or the maximum's gradient and its column sums.

    Rows are images of one pixel, columns are their channels.
    """
    on = device.dnn()
    rectifier, adding = cudnn_layers.rectifier(on), cudnn_layers.adding(on)
    matrix, row = (cudnn.tensor(on, (rows, problem.cols, 1, 1)) for rows in (problem.rows, 1))
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Any]) -> Launch:
        at = dict(zip(names, addresses(buffers), strict=True))
        x = (matrix, at["x"])
        if problem.phase == "forward":
            y = (matrix, at["y"])
            summed = cudnn_layers.add(on, adding, x, (row, at["b"]), y)
            calls = [summed, cudnn_layers.rectify(on, rectifier, y, y)]
        else:
            dx = (matrix, at["dx"])
            gradient = cudnn_layers.rectify_gradient(on, rectifier, x, (matrix, at["dy"]), x, dx)
            calls = [gradient, cudnn_layers.bias_gradient(on, dx, (row, at["db"]))]
        return in_order(calls, buffers, cudnn_layers.KERNELS, kernel=cudnn.kernel())

    return bind


def accepts(problem: BiasAct) -> str | None:
    """Return why cuDNN's calls cannot run `problem`, or None."""
    return refused(problem) or cudnn_layers.too_many(problem.count, "--rows")
