"""Dropout by cuDNN, its mask stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernels.launch import in_order
from kernels.libs import cuda, cudnn, cudnn_layers
from kernels.ops.dropout.problem import Dropout
from kernels.ops.gemm.cublas import addresses
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.setting import Setting


def prepare(problem: Dropout, device: Any, setting: Setting) -> Bind:
    """A call each way; every call forward draws another mask."""
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


VARIANT: Variant[Dropout] = Variant(
    "cudnn",
    "cuda",
    "cudnn",
    prepare,
    accepts=lambda problem: cudnn_layers.too_many(problem.units, "--units"),
    missing=cuda.libraries_missing,
    python=True,
)
