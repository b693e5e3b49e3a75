"""A chain of loads by one thread of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels import grid
from kernels.launch import Bind, Launch
from kernels.libs.cuda import CUDA_SUITE
from kernels.ops.chase import cuda
from kernels.ops.chase.problem import Chase
from kernels.variant import Variant, row


def prepare(problem: Chase, device: Any, setting: object) -> Bind:
    """The cycle is built once. What a cache may hold is read before each walk, as rivals' visits leave nothing of it
    there: by as many threads as there are lines, microseconds beside a walk of some hundred; what a multiprocessor's
    own may hold, by those that walk."""
    block = device.allocate(problem.working_set)
    places = {"workspace": int(block.data.ptr)}
    grid.calls(cuda.SOURCE, (cuda.build(problem),), places, device)()
    device.sync()
    walk = (*((cuda.touch(problem),) if problem.lines <= cuda.CACHED else ()), cuda.walk(problem))

    def bind(buffers: Sequence[Any]) -> Launch:
        run = grid.calls(cuda.SOURCE, walk, {**places, "y": int(buffers[0].data.ptr)}, device)

        def call(keep: object = (block, *buffers)) -> None:
            run()

        return Launch(call, uses=problem.steps, workspace=problem.working_set, capturable=True, kernels=len(walk))

    return bind


VARIANTS: tuple[Variant[Chase], ...] = (
    row(CUDA_SUITE, "cuda", prepare, accepts=cuda.refused, blas=lambda problem: "p = *p"),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
