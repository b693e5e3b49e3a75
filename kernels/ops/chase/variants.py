"""A chain of dependent loads, in C and in CUDA C, in memory that the kernel maps itself."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs.cuda import CUDA_SUITE
from kernels.native import CALL, launch, structure
from kernels.ops.chase import gpu
from kernels.ops.chase.problem import HUGE_PAGE, SMALL_PAGE, Chase
from kernels.ops.pages.variants import HUGE, Held, huge_pages, refuse_size
from kernels.provider import SUITE
from kernels.variant import Variant, row

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("chase.c")
POINTER = ctypes.c_void_p
Region = structure("pointer: base raw", "int64: lines steps page small")  # C struct `region` of chase.c
Argument = structure("pointer: y r")  # C struct `argument` of chase.c


def accepts(problem: Chase) -> str | None:
    """Return which of the problem's pages this machine lacks, or None."""
    if problem.page == SMALL_PAGE != os.sysconf("SC_PAGESIZE"):
        return f"the pages of this machine are of {os.sysconf('SC_PAGESIZE')} bytes"
    if problem.page == HUGE_PAGE and huge_pages() not in ("always", "madvise"):
        return f"no transparent huge pages here: echo madvise > {HUGE}"
    return None


def cycle(problem: Chase) -> Held:
    """Map and link all lines of the cycle. Raises Unavailable where memory is short."""
    refuse_size(problem)
    release = CALL(build.address(SOURCE, "release"))
    small = int(huge_pages() == "always")
    memory = Held(Region(lines=problem.lines, steps=problem.steps, page=problem.page, small=small), release)
    if not build.load(SOURCE).build(ctypes.c_void_p(memory.address)):
        raise Unavailable(f"the system maps no {problem.footprint >> 20} MiB")
    return memory


def prepare(problem: Chase, device: object, setting: object) -> Bind:
    """Prepare the walk. Raises Unavailable where memory is short."""
    kept = cycle(problem)
    function, ready = build.address(SOURCE, "walk"), build.address(SOURCE, "ready")

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(r=kept.address)
        base = launch(function, argument, ["y"], buffers, uses=problem.steps, workspace=problem.footprint, keep=(kept,))
        assert base.entry is not None
        return replace(base, entry=replace(base.entry, single=(ready, 0)))

    return bind


VARIANTS: tuple[Variant[Chase], ...] = (
    row(SUITE, "c", prepare, accepts=accepts, blas=lambda problem: "p = *p"),
    row(CUDA_SUITE, "cuda", gpu.prepare, accepts=gpu.refused, blas=lambda problem: "p = *p"),
)
