"""Softmax with cross-entropy on a GPU by our kernel, CuPy's chain and PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels.launch import Bind, Launch, held
from kernels.libs import torch_cuda
from kernels.nvcc import Geometry, over
from kernels.ops.softmax.libraries import array_sums, indexed, torch_parts
from kernels.ops.softmax.problem import Softmax

SOURCE = Path(__file__).with_name("softmax.cu")
KERNELS = ("softmax_index", "softmax_onehot")
THREADS = 256


def kernel(problem: Softmax) -> str:
    """Return the name of the kernel that solves `problem`."""
    return f"softmax_{problem.labels.replace('-', '')}"


def launches(problem: Softmax, name: str) -> tuple[Geometry, ...]:
    """Return the geometry of one launch, with one block per row."""
    return (over(name, problem.batch, THREADS, [x.name for x in problem.operands()], problem.classes),)


# Most kernels of a CuPy reduction, and of picking by two indices. CUB may sum a row in two passes, into a buffer that
# CuPy then copies to `out`. Picking clears the joined index, adds each index to the joined index, and then reads.
REDUCED, PICKED = 3, 4
# The loss's log-softmax is one kernel, forward and back; nll_loss first clears its result; a sum may take two passes.
LOSSES, LAYER, PARTS = 1 + 2 + 2 + 1, 3, 7


def cupy_kernels(problem: Softmax) -> int:
    """Return the most kernels of array_sums: those of the softmax, of the log of sums, and of the labels."""
    shares = 2 * REDUCED + 3
    if problem.labels == "index":
        return shares + 2 + PICKED + 1 + (PICKED + 1 + PICKED)  # y[labels] -= 1 picks, subtracts and puts back
    return shares + 2 + 1 + REDUCED + 2


def cupy_chain(problem: Softmax, device: Any, setting: object) -> Bind:
    cp = device.cp
    rows = cp.arange(problem.batch)
    edge = [cp.empty((problem.batch, 1), "f4") for _ in range(2)]
    spare = cp.empty((problem.batch, problem.classes), "f4")

    def bind(buffers: Sequence[Any]) -> Launch:
        x, truth, dx, loss = buffers
        given = (x, indexed(problem, rows, truth), (dx, loss), edge, spare)
        return Launch(lambda: array_sums(cp, *given), kernels=cupy_kernels(problem))

    return bind


def torch_out(problem: Softmax, device: Any, setting: object, *, rows: Callable[..., Any]) -> Bind:
    torch = torch_cuda.load(device)
    run = rows(problem, torch, device.name)
    kernels = PARTS if rows is torch_parts else LOSSES + (LAYER if problem.before != "none" else 0)

    def bind(buffers: Sequence[Any]) -> Launch:
        given = [torch_cuda.tensor(torch, buffer) for buffer in buffers]
        return held(partial(run, *given), buffers, kernels=kernels)

    return bind
