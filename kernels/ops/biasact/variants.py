"""Bias and ReLU: our C in one pass and in two, NumPy, PyTorch and oneDNN.

Our passes follow NumPy's product or run alone; PyTorch's product adds the bias, oneDNN's applies bias and ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import grid, maths
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, in_order
from kernels.lazy import np
from kernels.libs import cudnn, cudnn_layers
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cudnn import CUDNN
from kernels.libs.torch import TORCH
from kernels.native import launch, structure
from kernels.nvcc import Geometry, over
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.gemm.cublas import addresses
from kernels.provider import NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE, CUDA_SOURCE = Path(__file__).with_name("biasact.c"), Path(__file__).with_name("biasact.cu")
KERNELS = ("biasact_forward", "biasact_dgrad")  # of biasact.cu
THREADS, COLS = 256, 32  # of a block: elements forward; columns of the gradient
Argument = structure("pointer: x dy b y dx db", "int64: rows cols")  # C struct `argument` of biasact.c


def product_then(problem: BiasAct, device: object, setting: Setting, *, symbol: str) -> Bind:
    """Prepare NumPy's product into y, then our pass over y in place."""
    maths.alone(setting)
    function = maths.address(SOURCE, symbol)

    def bind(buffers: Sequence[Any]) -> Launch:
        a, w, b, y = buffers
        after = launch(function, Argument(rows=problem.rows, cols=problem.cols), "by", (b, y)).call

        def call() -> None:
            np.matmul(a, w, y)
            after()

        return Launch(call)

    return bind


def numpy_chain(problem: BiasAct, device: object, setting: Setting) -> Bind:
    maths.alone(setting)
    mask = np.empty((problem.rows, problem.cols), bool)

    def dgrad(x: Any, dy: Any, dx: Any, db: Any) -> None:
        np.greater(x, 0, out=mask)
        np.multiply(dy, mask, out=dx)
        np.add.reduce(dx, axis=0, out=db[0])

    def forward(*given: Any) -> None:
        *x, b, y = given
        if problem.terms:
            np.matmul(x[0], x[1], y)
        np.add(y if problem.terms else x[0], b, out=y)
        np.maximum(y, 0, out=y)

    run = forward if problem.phase == "forward" else dgrad
    return lambda buffers: Launch(partial(run, *buffers))


def torch_out(problem: BiasAct, device: object, setting: Setting, *, inside: bool) -> Bind:
    """Prepare PyTorch's operators; with `inside`, torch.addmm computes the product and adds the bias."""
    torch = torch_library.on_threads(setting.threads)

    def dgrad(x: Any, dy: Any, dx: Any, db: Any) -> None:
        torch.ops.aten.threshold_backward.grad_input(dy, x, 0, grad_input=dx)
        torch.sum(dx, 0, out=db[0])

    def forward(*given: Any) -> None:
        *x, b, y = given
        if inside:
            torch.addmm(b[0], *x, out=y)
        elif problem.terms:
            torch.mm(*x, out=y)
            y.add_(b)
        else:
            torch.add(*x, b, out=y)
        y.relu_()

    run = forward if problem.phase == "forward" else dgrad
    return lambda buffers: Launch(partial(run, *(torch_library.tensor(torch, x) for x in buffers)))


def onednn(problem: BiasAct, device: object, setting: Setting) -> Bind:
    """Prepare oneDNN's product with fused bias and ReLU, through PyTorch's operator.

    The operator allocates its result, which is copied to y; w is transposed once, as a layer keeps it.
    """
    torch = torch_library.on_threads(setting.threads)
    try:
        linear = torch.ops.mkldnn._linear_pointwise
    except AttributeError:
        raise Unavailable("this torch lacks mkldnn._linear_pointwise") from None

    def bind(buffers: Sequence[Any]) -> Launch:
        a, w, b, y = (torch_library.tensor(torch, x) for x in buffers)
        turned, row = w.t(), b[0]

        def call() -> None:
            y.copy_(linear(a, turned, row, "relu", [], ""))

        return Launch(call)

    return bind


def kernel(problem: BiasAct) -> str:
    """Return the name of the CUDA kernel that solves `problem`."""
    return f"biasact_{problem.phase}"


def launches(problem: BiasAct, name: str) -> tuple[Geometry, ...]:
    """Return the one launch of bias and ReLU, without a product before them."""
    forward = problem.phase == "forward"
    blocks = -(-problem.count // THREADS) if forward else -(-problem.cols // COLS)
    names = [x.name for x in problem.operands()]
    return (over(name, blocks, THREADS, names, problem.count if forward else problem.rows, problem.cols),)


def by_cudnn(problem: BiasAct, device: Any, setting: Setting) -> Bind:
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


def _alone(problem: BiasAct) -> str | None:
    return None if not problem.terms else "does not support a preceding product: --terms 0"


def _product(problem: BiasAct) -> str | None:
    return None if problem.terms else "requires a preceding product: --terms 1 or more"


def _cudnn(problem: BiasAct) -> str | None:
    return _alone(problem) or cudnn_layers.too_many(problem.count, "--rows")


def _c_kernel(words: str = "") -> Callable[[Any, Any, Any], Bind]:
    return maths.prepared(SOURCE, lambda p: f"biasact_{p.phase}{words}", Argument)


VARIANTS: tuple[Variant[BiasAct], ...] = (
    row(SUITE, "c", _c_kernel(), accepts=_alone),
    row(SUITE, "c-passes", _c_kernel("_passes"), accepts=_alone),
    row(NUMPY, "numpy-c", partial(product_then, symbol="biasact_forward"), accepts=_product, roles=()),
    row(NUMPY, "numpy-c-passes", partial(product_then, symbol="biasact_forward_passes"), accepts=_product, roles=()),
    row(NUMPY, "numpy", numpy_chain),
    row(TORCH, "torch", partial(torch_out, inside=False)),
    row(TORCH, "torch-bias-inside", partial(torch_out, inside=True), accepts=_product, roles=()),
    row(TORCH, "onednn-both-inside", onednn, accepts=_product, roles=()),
    row(CUDA_SUITE, "cuda", grid.solving(CUDA_SOURCE, launches, kernel), accepts=_alone),
    row(CUDNN, "cudnn", by_cudnn, accepts=_cudnn),
)
