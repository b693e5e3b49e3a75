"""Memory costs by a C function for each kind of memory, with untimed preparation before each sample."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.native import CALL, launch, structure
from kernels.ops.pages.problem import FEW, HUGE_PAGE, SMALL_PAGE, STRAY, Pages
from kernels.problem import Array, Problem
from kernels.provider import SUITE
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("pages.c")
HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
WHAT = {"map": 0, "clear": 1, "copy": 2}
ENTRY = {name: name for name in ("touched", "fresh", "mapped")} | {"default": "heap_default", "keep": "heap_keep"}
SHARE = 2  # at most 1/SHARE of the free memory is used
LEAST_MAPPED = 256 << 10  # bytes; the threshold that pages.c sets is half of it
# C struct `region` of pages.c
Region = structure(
    "pointer: base raw source source_raw", "int64: size behind page what small", "double: pause", "int32: fresh failed"
)


Argument = structure("pointer: y r")  # C struct `argument` of pages.c


@functools.cache
def huge_pages() -> str | None:
    """Return the mode of transparent huge pages: always, madvise, never; None if the kernel lacks them."""
    try:
        return HUGE.read_text().partition("[")[2].partition("]")[0] or None
    except OSError:
        return None


def accepts(problem: Pages) -> str | None:
    """Return which pages the machine lacks or which options conflict, or None if `problem` can run."""
    if problem.page == SMALL_PAGE != os.sysconf("SC_PAGESIZE"):
        return f"this machine's page size is {os.sysconf('SC_PAGESIZE')} bytes"
    if problem.page == HUGE_PAGE and huge_pages() not in ("always", "madvise"):
        return f"transparent huge pages are off or missing: echo madvise > {HUGE}"
    if problem.size % problem.page or problem.behind % problem.page:
        return f"--size and --behind must be multiples of --page {problem.page}"
    if (problem.pause or problem.behind) and problem.memory != "fresh":
        return "--pause and --behind require --memory fresh"
    if problem.memory == "default" and problem.size < LEAST_MAPPED:
        return "the heap does not map such small blocks anew: use --size 262144 or more"
    if problem.what == "map" and problem.memory in ("touched", "fresh", "keep"):
        return "nothing to time: use --memory mapped or --memory default"
    return None


class Held:
    """A mapped region of memory, released with the last reference to it."""

    def __init__(self, region: ctypes.Structure, release: Callable[[int], None]) -> None:
        self.region, self._release = region, release

    @property
    def address(self) -> int:
        return ctypes.addressof(self.region)

    def __del__(self) -> None:
        self._release(self.address)


def refuse_size(problem: Problem) -> None:
    """Raise Unavailable if `problem` needs more than half of the free memory."""
    from kernels.devices import open_device

    free = open_device("cpu").limits().memory
    if SHARE * problem.footprint > free:
        raise Unavailable(f"needs {problem.footprint >> 20} MiB, more than half of the {free >> 20} MiB free")


def held(problem: Pages) -> Held:
    """Return the problem's region, not yet mapped. Raises Unavailable if memory is short."""
    refuse_size(problem)
    release = CALL(build.address(SOURCE, "release"))
    small = int(huge_pages() == "always")
    what = WHAT[problem.what]
    return Held(
        Region(
            size=problem.size, behind=problem.behind, page=problem.page, what=what, small=small, pause=problem.pause
        ),
        release,
    )


def _refuse_others(problem: Pages) -> None:
    """Raise Unavailable if the operating system maps pages of another size."""
    trial = held(replace(problem, what="clear", memory="fresh", pause=0.0, behind=0))
    given: Any = build.load(SOURCE).given
    given.restype = ctypes.c_int64
    faults = given(ctypes.c_void_p(trial.address))
    if faults < 0:
        raise Unavailable(f"the system cannot map {problem.size} bytes")
    if faults > FEW + (1 + STRAY) * problem.pages:
        raise Unavailable(
            f"instead of {problem.pages} pages of {problem.page} bytes, the system mapped {faults} smaller ones: "
            "memory is fragmented; echo 1 > /proc/sys/vm/compact_memory"
        )


def prepare(problem: Pages, device: object, setting: Setting) -> Bind:
    """Prepare the C function. Raises Unavailable without the required memory, pages or heap."""
    if setting.heap != "default":
        raise Unavailable("sets the heap's policy itself: remove --heap, use --memory default,keep")
    if problem.memory in ("default", "keep") and not build.load(SOURCE).heap_known():
        raise Unavailable("heap policies require glibc; this C library has none")
    _refuse_others(problem)
    kept = held(problem)
    function = build.address(SOURCE, ENTRY[problem.memory])
    ready = build.address(SOURCE, f"{problem.memory}_ready")

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(r=kept.address)
        base = launch(function, argument, ["y"], buffers, workspace=problem.footprint, keep=(kept,))
        assert base.entry is not None
        call, first, place = base.call, CALL(ready), ctypes.addressof(argument)

        def run() -> None:
            if problem.memory != "fresh":  # a fresh call prepares itself, without a pause
                first(place)
            call()

        return replace(base, call=run, entry=replace(base.entry, single=(ready, 0)))

    return bind


CALLED = {
    "touched": "memset or memcpy, 4 KiB at a time",
    "fresh": "memset or memcpy, 4 KiB at a time; mmap before the launch",
    "mapped": "mmap, memset or memcpy, munmap",
    "default": "malloc, memset or memcpy, free; mallopt(M_MMAP_MAX, 65536)",
    "keep": "malloc, memset or memcpy, free; mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, -1)",
}

VARIANTS: tuple[Variant[Pages], ...] = (
    row(SUITE, "c", prepare, accepts=accepts, blas=lambda problem: CALLED[problem.memory]),
)
