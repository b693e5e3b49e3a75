"""Bias and ReLU: our C in one pass and in two, NumPy, PyTorch and oneDNN.

Our passes follow NumPy's product or stand alone; PyTorch adds the bias inside its product, oneDNN applies both there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import grid, maths
from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cudnn import CUDNN
from kernels.libs.torch import TORCH
from kernels.native import launch, structure
from kernels.ops.biasact import gpu
from kernels.ops.biasact.problem import BiasAct
from kernels.provider import NUMPY, SUITE
from kernels.variant import Variant, row

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.setting import Setting

SOURCE = Path(__file__).with_name("biasact.c")
Argument = structure("pointer: x dy b y dx db", "int64: rows cols")  # C struct `argument` of biasact.c


def product_then(problem: BiasAct, device: object, setting: Setting, *, symbol: str) -> Bind:
    """Prepare NumPy's product into y, then our pass over y in place."""
    import numpy as np

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
    import numpy as np

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
    """Prepare PyTorch's operators; with `inside`, the product torch.addmm adds the bias."""
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
    """Prepare oneDNN's product with bias and ReLU, by PyTorch's operator for it.

    The operator allocates its result, which is copied to y; w is transposed once, as a layer keeps it.
    """
    torch = torch_library.on_threads(setting.threads)
    try:
        linear = torch.ops.mkldnn._linear_pointwise
    except AttributeError:
        raise Unavailable("this torch has no mkldnn._linear_pointwise") from None

    def bind(buffers: Sequence[Any]) -> Launch:
        a, w, b, y = (torch_library.tensor(torch, x) for x in buffers)
        turned, row = w.t(), b[0]

        def call() -> None:
            y.copy_(linear(a, turned, row, "relu", [], ""))

        return Launch(call)

    return bind


def _alone(problem: BiasAct) -> str | None:
    return None if not problem.terms else "it has no product before it: --terms 0"


def _product(problem: BiasAct) -> str | None:
    return None if problem.terms else "a product goes before it: --terms 1 or more"


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
    row(CUDA_SUITE, "cuda", grid.solving(gpu), accepts=gpu.refused),
    row(CUDNN, "cudnn", gpu.prepare, accepts=gpu.accepts),
)
