"""Dropout: our mask recomputed, stored or drawn in a separate pass; NumPy's and PyTorch's generators."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import grid, maths
from kernels.launch import Launch
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cudnn import CUDNN
from kernels.libs.torch import TORCH
from kernels.native import structure
from kernels.ops.dropout import gpu
from kernels.ops.dropout.problem import Dropout
from kernels.provider import NUMPY, SUITE
from kernels.variant import Variant, row

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.setting import Setting

SOURCE = Path(__file__).with_name("dropout.c")
# C struct `argument` of dropout.c
Argument = structure("pointer: x dy y dx scratch", "int64: units", "float: scale", "uint32: dropped key")


def _argument(problem: Dropout) -> tuple[ctypes.Structure, tuple[object, ...]]:
    import random

    argument = Argument(
        units=problem.units, scale=problem.scale, dropped=int(problem.rate * 2**32), key=random.getrandbits(32)
    )
    return argument, ()


def numpy_mask(problem: Dropout, device: object, setting: Setting) -> Bind:
    import numpy as np

    maths.alone(setting)
    rng, drawn = np.random.default_rng(), np.empty((1, problem.units), np.float32)
    mask, scale = np.empty((1, problem.units), bool), np.float32(problem.scale)

    def run(x: Any, dy: Any, y: Any, dx: Any) -> None:
        rng.random(out=drawn, dtype=np.float32)
        np.greater_equal(drawn, problem.rate, out=mask)
        for given, half in ((x, y), (dy, dx)):
            np.multiply(given, mask, out=half)
            np.multiply(half, scale, out=half)

    return lambda buffers: Launch(partial(run, *buffers))


def torch_mask(problem: Dropout, device: object, setting: Setting) -> Bind:
    """Prepare nn.Dropout's training path: native_dropout, whose new result is copied, and its backward."""
    torch = torch_library.on_threads(setting.threads)
    aten = torch.ops.aten

    def run(x: Any, dy: Any, y: Any, dx: Any) -> None:
        kept, mask = aten.native_dropout(x, problem.rate, True)
        y.copy_(kept)
        dx.copy_(aten.native_dropout_backward(dy, mask, problem.scale))

    return lambda buffers: Launch(partial(run, *(torch_library.tensor(torch, x) for x in buffers)))


def _c_kernel(symbol: str, mask: bool) -> Callable[[Any, Any, Any], Bind]:
    return maths.prepared(SOURCE, lambda p: symbol, _argument, lambda p: p.units + 64 if mask else 0)


VARIANTS: tuple[Variant[Dropout], ...] = (
    row(SUITE, "c-counter", _c_kernel("dropout_counter", False)),
    row(SUITE, "c-mask", _c_kernel("dropout_mask", True)),
    row(SUITE, "c-mask-passes", _c_kernel("dropout_mask_passes", True)),
    row(NUMPY, "numpy", numpy_mask),
    row(TORCH, "torch", torch_mask),
    row(CUDA_SUITE, "cuda", grid.solving(gpu)),
    row(CUDNN, "cudnn", gpu.prepare, accepts=gpu.accepts),
)
