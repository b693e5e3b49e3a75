"""A chain of dependent loads by one thread of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels import grid
from kernels.launch import Bind, Launch, held
from kernels.nvcc import Argument, Geometry, over
from kernels.ops.chase.problem import SMALL_PAGE, Chase

SOURCE = Path(__file__).with_name("chase.cu")
KERNELS = ("chase_build", "chase_touch", "chase_walk")
CACHED = 1 << 21  # lines, 128 MiB: larger sets fit no cache
THREADS, WARP = 256, 32  # of a block that builds; of the one that walks, whose first thread loads


def bits(problem: Chase) -> int:
    """Return the bits of a line's number."""
    return max(1, (problem.lines - 1).bit_length())


def _memory(problem: Chase) -> Argument:
    return ("workspace", problem.working_set)


def build(problem: Chase) -> Geometry:
    """Return the launch that writes the cycle, as large as the working set, into a workspace."""
    return over(
        "chase_build", -(-problem.lines // THREADS), THREADS, (), _memory(problem), problem.lines, bits(problem)
    )


def touch(problem: Chase) -> Geometry:
    """Return the launch that reads the cycle once, one thread a line."""
    return over("chase_touch", -(-problem.lines // THREADS), THREADS, (), _memory(problem), problem.lines)


def walk(problem: Chase) -> Geometry:
    """Return the launch that walks the cycle."""
    return over("chase_walk", 1, WARP, "y", _memory(problem), problem.lines, bits(problem), problem.steps)


def launches(problem: Chase, name: str) -> tuple[Geometry, ...]:
    """Return three launches: build the cycle, read it once, walk it."""
    return build(problem), touch(problem), walk(problem)


def refused(problem: Chase) -> str | None:
    """Return why a GPU cannot run `problem`, or None."""
    return None if problem.page == SMALL_PAGE else f"a GPU's pages are its own: --page {SMALL_PAGE}"


def prepare(problem: Chase, device: Any, setting: object) -> Bind:
    """Prepare a walk along a cycle that is built once.

    Before each walk the lines a cache may hold are read again, as other contestants' samples evict them: by one thread
    a line, microseconds beside a walk of some hundred; a multiprocessor's own cache is filled by the walking threads.
    """
    block = device.allocate(problem.working_set)
    places = {"workspace": int(block.data.ptr)}
    grid.calls(SOURCE, (build(problem),), places, device)()
    device.sync()
    steps = (*((touch(problem),) if problem.lines <= CACHED else ()), walk(problem))

    def bind(buffers: Sequence[Any]) -> Launch:
        run = grid.calls(SOURCE, steps, {**places, "y": int(buffers[0].data.ptr)}, device)
        return held(
            run,
            (block, *buffers),
            uses=problem.steps,
            workspace=problem.working_set,
            capturable=True,
            kernels=len(steps),
        )

    return bind
