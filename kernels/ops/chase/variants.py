"""A chain of dependent loads, in C and in CUDA C, in memory that the kernel maps itself."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels import build, grid
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, held
from kernels.libs.cuda import CUDA_SUITE
from kernels.native import CALL, launch, structure
from kernels.nvcc import Argument as Passed
from kernels.nvcc import Geometry, over
from kernels.ops.chase.problem import HUGE_PAGE, SMALL_PAGE, Chase
from kernels.ops.pages.variants import HUGE, Held, huge_pages, refuse_size
from kernels.problem import Array
from kernels.provider import SUITE
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("chase.c")
Region = structure("pointer: base raw", "int64: lines steps page small")  # C struct `region` of chase.c
Argument = structure("pointer: y r")  # C struct `argument` of chase.c


def accepts(problem: Chase) -> str | None:
    """Return which of the problem's pages this machine lacks, or None."""
    if problem.page == SMALL_PAGE != os.sysconf("SC_PAGESIZE"):
        return f"this machine's page size is {os.sysconf('SC_PAGESIZE')} bytes"
    if problem.page == HUGE_PAGE and huge_pages() not in ("always", "madvise"):
        return f"transparent huge pages are off or missing: echo madvise > {HUGE}"
    return None


def cycle(problem: Chase) -> Held:
    """Map memory and link the lines of the cycle. Raises Unavailable if memory is short."""
    refuse_size(problem)
    release = CALL(build.address(SOURCE, "release"))
    small = int(huge_pages() == "always")
    memory = Held(Region(lines=problem.lines, steps=problem.steps, page=problem.page, small=small), release)
    if not build.load(SOURCE).build(ctypes.c_void_p(memory.address)):
        raise Unavailable(f"the system cannot map {problem.footprint >> 20} MiB")
    return memory


def prepare(problem: Chase, device: object, setting: object) -> Bind:
    """Prepare the walk. Raises Unavailable if memory is short."""
    kept = cycle(problem)
    function, ready = build.address(SOURCE, "walk"), build.address(SOURCE, "ready")

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(r=kept.address)
        base = launch(function, argument, ["y"], buffers, uses=problem.steps, workspace=problem.footprint, keep=(kept,))
        assert base.entry is not None
        return replace(base, entry=replace(base.entry, single=(ready, 0)))

    return bind


CUDA_SOURCE = Path(__file__).with_name("chase.cu")
KERNELS = ("chase_build", "chase_touch", "chase_walk")
CACHED = 1 << 21  # lines, 128 MiB: larger sets fit no cache
THREADS, WARP = 256, 32  # threads of blocks that build; threads of the block that walks, whose first thread loads


def bits(problem: Chase) -> int:
    """Return the number of bits in a line's number."""
    return max(1, (problem.lines - 1).bit_length())


def _memory(problem: Chase) -> Passed:
    return ("workspace", problem.working_set)


def _build(problem: Chase) -> Geometry:
    """Return the launch that writes the cycle, as large as the working set, into a workspace."""
    return over(
        "chase_build", -(-problem.lines // THREADS), THREADS, (), _memory(problem), problem.lines, bits(problem)
    )


def _touch(problem: Chase) -> Geometry:
    """Return the launch that reads the cycle once, with one thread per line."""
    return over("chase_touch", -(-problem.lines // THREADS), THREADS, (), _memory(problem), problem.lines)


def _walk(problem: Chase) -> Geometry:
    """Return the launch that walks the cycle."""
    return over("chase_walk", 1, WARP, "y", _memory(problem), problem.lines, bits(problem), problem.steps)


def launches(problem: Chase, name: str) -> tuple[Geometry, ...]:
    """Return three launches: build the cycle, read it once, walk it."""
    return _build(problem), _touch(problem), _walk(problem)


def refused(problem: Chase) -> str | None:
    """Return why a GPU cannot run `problem`, or None."""
    return None if problem.page == SMALL_PAGE else f"a GPU's page size is fixed: --page {SMALL_PAGE}"


def on_gpu(problem: Chase, device: Any, setting: object) -> Bind:
    """Prepare a walk along a cycle that is built once.

    A set that a cache may hold is read again before each walk, since other variants' samples evict it: one thread
    per line, microseconds beside a walk of some hundred. The walk itself fills its multiprocessor's L1 cache.
    """
    block = device.allocate(problem.working_set)
    places = {"workspace": int(block.data.ptr)}
    grid.calls(CUDA_SOURCE, (_build(problem),), places, device)()
    device.sync()
    steps = (*((_touch(problem),) if problem.lines <= CACHED else ()), _walk(problem))

    def bind(buffers: Sequence[Any]) -> Launch:
        run = grid.calls(CUDA_SOURCE, steps, {**places, "y": int(buffers[0].data.ptr)}, device)
        return held(
            run,
            (block, *buffers),
            uses=problem.steps,
            workspace=problem.working_set,
            capturable=True,
            kernels=len(steps),
        )

    return bind


VARIANTS: tuple[Variant[Chase], ...] = (
    row(SUITE, "c", prepare, accepts=accepts, blas=lambda problem: "p = *p"),
    row(CUDA_SUITE, "cuda", on_gpu, accepts=refused, blas=lambda problem: "p = *p"),
)
