"""A copy to a GPU on a stream of its own, while products run on the device's. Never run on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernels import grid
from kernels.launch import Launch
from kernels.libs import cublas
from kernels.ops.gemm.cublas import addresses, call_of
from kernels.ops.gemm.problem import Gemm
from kernels.ops.transfer.cuda_copies import TIES, TO_DEVICE, Host, Side, enqueued
from kernels.ops.transfer.problem import Transfer

if TYPE_CHECKING:
    from kernels.launch import Bind

SQUARE = Gemm(1024, 1024, 1024)
FLOPS = 1000  # of the products, a byte that is copied: about as many as a card computes while its link brings one


def count(problem: Transfer) -> int:
    """How many products there are beside a copy."""
    return max(1, round(FLOPS * problem.size / SQUARE.flops))


def products(problem: Transfer, device: Any, setting: object) -> Bind:
    """Those alone."""
    many, multiply, keep = count(problem), *_product(device)
    call = grid.in_turn([multiply] * many, keep)
    return lambda buffers: Launch(call, capturable=True, kernels=cublas.KERNELS * many)


def both(problem: Transfer, device: Any, setting: object) -> Bind:
    """With the copy."""
    many, multiply, keep = count(problem), *_product(device)
    host, side = Host(device, "pinned", problem.size), Side(device)

    def bind(buffers: Sequence[Any]) -> Launch:
        _, y = addresses(buffers)
        copies = enqueued(device, problem, y, host.place, TO_DEVICE, side.stream)
        made = side.at_once([multiply] * many, copies, (host, keep, *buffers))
        return replace(made, kernels=cublas.KERNELS * many + len(copies) + TIES)

    return bind


def _product(device: Any) -> tuple[Callable[[], object], object]:
    """A call of it on normal numbers, and what it keeps."""
    import numpy as np

    rng = np.random.default_rng(0)
    views = [device.view(device.allocate(x.nbytes), 0, x) for x in SQUARE.operands()]
    for view in views:
        device.put(view, rng.standard_normal(view.shape, np.float32))
    return call_of(device.blas(), SQUARE, addresses(views)), views
