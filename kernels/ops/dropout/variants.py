"""Dropout: our C with a recomputed, stored or separately drawn mask; our CUDA, NumPy, PyTorch, cuDNN."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import grid, maths
from kernels.launch import Bind, Launch, in_order
from kernels.lazy import np
from kernels.libs import cudnn, cudnn_layers
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cudnn import CUDNN
from kernels.libs.torch import TORCH
from kernels.native import structure
from kernels.nvcc import Argument as Passed
from kernels.nvcc import Geometry, over
from kernels.ops.dropout.problem import Dropout
from kernels.ops.gemm.cublas import addresses
from kernels.provider import NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE, CUDA_SOURCE = Path(__file__).with_name("dropout.c"), Path(__file__).with_name("dropout.cu")
KERNELS = ("dropout_key", "dropout_both")  # of dropout.cu
THREADS, WARP, KEY = 256, 32, 4  # threads of a block; of the block that draws the key; bytes of the key
ALL = 1 << 32  # the 32-bit fixed-point value of a share of 1
# C struct `argument` of dropout.c
Argument = structure("pointer: x dy y dx scratch", "int64: units", "float: scale", "uint32: dropped key")


def _argument(problem: Dropout) -> tuple[ctypes.Structure, tuple[object, ...]]:
    import random

    argument = Argument(
        units=problem.units, scale=problem.scale, dropped=int(problem.rate * ALL), key=random.getrandbits(32)
    )
    return argument, ()


def numpy_mask(problem: Dropout, device: object, setting: Setting) -> Bind:
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
    """Prepare nn.Dropout's training path: native_dropout and its backward, results copied to y and dx."""
    torch = torch_library.on_threads(setting.threads)
    aten = torch.ops.aten

    def run(x: Any, dy: Any, y: Any, dx: Any) -> None:
        kept, mask = aten.native_dropout(x, problem.rate, True)
        y.copy_(kept)
        dx.copy_(aten.native_dropout_backward(dy, mask, problem.scale))

    return lambda buffers: Launch(partial(run, *(torch_library.tensor(torch, x) for x in buffers)))


def _c_kernel(symbol: str, mask: bool) -> Callable[[Any, Any, Any], Bind]:
    return maths.prepared(SOURCE, lambda p: symbol, _argument, lambda p: p.units + 64 if mask else 0)


def kernel(problem: Dropout) -> str:
    """Return the name of the last CUDA kernel that solves `problem`."""
    return KERNELS[-1]


def launches(problem: Dropout, name: str) -> tuple[Geometry, ...]:
    """Return two launches: draw the key, then forward and backward."""
    key: Passed = ("workspace", KEY)
    numbers = (problem.scale, problem.units, int(problem.rate * ALL))
    names = [x.name for x in problem.operands()]
    both = over("dropout_both", -(-problem.units // THREADS), THREADS, names, key, *numbers)
    return over("dropout_key", 1, WARP, (), key), both


def by_cudnn(problem: Dropout, device: Any, setting: Setting) -> Bind:
    """Prepare a cuDNN call for each direction; every forward call draws another mask."""
    import random

    on = device.dnn()
    row = cudnn.tensor(on, (1, 1, 1, problem.units))
    states = device.cp.empty(cudnn_layers.state_bytes(on), device.cp.uint8)
    mask = device.cp.empty(cudnn_layers.mask_bytes(on, row), device.cp.uint8)
    seeded, kept = ((int(x.data.ptr), int(x.nbytes)) for x in (states, mask))
    how = cudnn_layers.dropping(on, problem.rate, seeded, random.getrandbits(63))

    def bind(buffers: Sequence[Any]) -> Launch:
        x, dy, y, dx = ((row, address) for address in addresses(buffers))
        calls = [cudnn_layers.drop(on, how, x, y, kept), cudnn_layers.drop_gradient(on, how, dy, dx, kept)]
        workspace = int(states.nbytes + mask.nbytes)
        return in_order(calls, (buffers, states, mask), cudnn_layers.KERNELS, workspace, kernel=cudnn.kernel())

    return bind


def cudnn_accepts(problem: Dropout) -> str | None:
    """Return why cuDNN's calls cannot run `problem`, or None."""
    return cudnn_layers.too_many(problem.units, "--units")


VARIANTS: tuple[Variant[Dropout], ...] = (
    row(SUITE, "c-counter", _c_kernel("dropout_counter", False)),
    row(SUITE, "c-mask", _c_kernel("dropout_mask", True)),
    row(SUITE, "c-mask-passes", _c_kernel("dropout_mask_passes", True)),
    row(NUMPY, "numpy", numpy_mask),
    row(TORCH, "torch", torch_mask),
    row(CUDA_SUITE, "cuda", grid.solving(CUDA_SOURCE, launches, kernel)),
    row(CUDNN, "cudnn", by_cudnn, accepts=cudnn_accepts),
)
