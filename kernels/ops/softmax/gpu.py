"""Softmax with cross-entropy on a GPU by CuPy, one of its kernels after another, and by PyTorch's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels.libs import torch_cuda
from kernels.ops.softmax.libraries import array_sums, split
from kernels.variant import Launch

if TYPE_CHECKING:
    from kernels.ops.softmax.problem import Softmax
    from kernels.variant import Bind


def cupy_chain(problem: Softmax, device: Any, setting: object) -> Bind:
    cp = device.cp
    own = cp.arange(problem.batch), cp.asarray(problem.targets())
    edge = [cp.empty((problem.batch, 1), "f4") for _ in range(2)]
    spare = cp.empty((problem.batch, problem.classes), "f4")

    def bind(buffers: Sequence[Any]) -> Launch:
        x, *t, y = buffers
        given = (x, t[0] if t else None, *split(problem, y), own, edge, spare)
        return Launch(lambda: array_sums(cp, *given))

    return bind


def torch_out(problem: Softmax, device: Any, setting: object, *, rows: Callable[..., Any]) -> Bind:
    torch = torch_cuda.load(device)
    run = rows(problem, torch, device.name)

    def bind(buffers: Sequence[Any]) -> Launch:
        x, *t, y = (torch_cuda.tensor(torch, buffer) for buffer in buffers)
        given = (x, t[0] if t else None, *split(problem, y))

        def call(keep: object = buffers) -> None:
            run(*given)

        return Launch(call)

    return bind
