"""Dropout by our CUDA kernels and by cuDNN, which stores its mask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.launch import in_order
from kernels.libs import cudnn, cudnn_layers
from kernels.nvcc import Argument, Geometry, refuse_unknown
from kernels.ops.dropout.problem import Dropout
from kernels.ops.gemm.cublas import addresses

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.setting import Setting


SOURCE = Path(__file__).with_name("dropout.cu")
KERNELS = ("dropout_key", "dropout_both")
THREADS, WARP, KEY = 256, 32, 4  # of a block; of the one that makes the key; bytes of it
ALL = 1 << 32  # scale of a share in 32 bits


def kernel(problem: Dropout) -> str:
    """Return the name of the last kernel that solves `problem`."""
    return "dropout_both"


def launches(problem: Dropout, name: str) -> tuple[Geometry, ...]:
    """Return two launches: draw the key, then forward and backward. Raises UsageError."""
    refuse_unknown(SOURCE, name, KERNELS)
    key: Argument = ("workspace", KEY)
    places: tuple[Argument, ...] = tuple(("operand", x.name) for x in problem.operands())
    numbers: tuple[Argument, ...] = (
        ("float32", problem.scale),
        ("int64", problem.units),
        ("int64", int(problem.rate * ALL)),
    )
    blocks = -(-problem.units // THREADS)
    return (
        Geometry("dropout_key", (1, 1, 1), (WARP, 1, 1), (key,)),
        Geometry("dropout_both", (blocks, 1, 1), (THREADS, 1, 1), (*places, key, *numbers)),
    )


def prepare(problem: Dropout, device: Any, setting: Setting) -> Bind:
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


def accepts(problem: Dropout) -> str | None:
    """Return why cuDNN's calls cannot run `problem`, or None."""
    return cudnn_layers.too_many(problem.units, "--units")
