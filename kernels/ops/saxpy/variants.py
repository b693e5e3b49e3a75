"""Loops vectorized by the compiler, or written for one vector width; operands warm or evicted."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.native import CALL, launch, structure
from kernels.ops.fma.problem import ISA
from kernels.ops.saxpy.problem import PASSES, SWEEP, WIDTHS, Saxpy
from kernels.problem import Array
from kernels.provider import SUITE
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("saxpy.c")
WIDE = Path(__file__).with_name("wide.c")
ALONE = ("-fno-tree-vectorize", "-fno-tree-slp-vectorize")  # the width is the source's, not the compiler's
# C struct `argument` of saxpy.c
Argument = structure("pointer: x y", "int64: count rows passes sweep", "pointer: swept")


class Swept:
    """Memory that is read to evict the caches, unmapped with the last reference to it."""

    def __init__(self) -> None:
        self._release = CALL(build.address(SOURCE, "release"))
        self.place = ctypes.c_void_p(None)

    def __del__(self) -> None:
        argument = Argument(sweep=SWEEP, swept=ctypes.addressof(self.place))
        self._release(ctypes.addressof(argument))


def prepare(problem: Saxpy, device: object, setting: object) -> Bind:
    """Prepare the loop. Raises Unavailable if the processor cannot flush a line from user mode."""
    if problem.state == "flushed" and not build.load(SOURCE).flushes():
        raise Unavailable("this processor lacks a user-mode cache-line flush (CLFLUSH): --state swept")
    function = build.address(SOURCE, "saxpy")
    ready, swept = build.address(SOURCE, f"{problem.state}_ready"), Swept()

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(
            count=problem.count, rows=problem.rows, passes=PASSES, sweep=SWEEP, swept=ctypes.addressof(swept.place)
        )
        base = launch(function, argument, ["x", "y"], buffers, keep=(swept,))
        assert base.entry is not None
        return replace(base, entry=replace(base.entry, single=(ready, 0)))

    return bind


def flags(name: str) -> tuple[str, ...]:
    """Return the compiler flags of a row of WIDTHS."""
    isa, lanes = WIDTHS[name]
    return (*ISA[isa][1], *ALONE, f"-DLANES={lanes}")


def wide(name: str, problem: Saxpy, device: object, setting: object) -> Bind:
    """Prepare the loop of wide.c in vectors of one width."""
    function = build.address(WIDE, "saxpy", flags(name))

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Argument(count=problem.count, passes=PASSES), ["x", "y"], buffers)

    return bind


def accepts(name: str, problem: Saxpy) -> str | None:
    """Return the missing instruction set, or that operands must be warm; None if `problem` can run."""
    from kernels.devices.cpu import instruction_sets

    isa, _ = WIDTHS[name]
    if isa not in instruction_sets():
        return f"this processor lacks {isa}"
    return None if problem.state == "warm" else "requires operands in cache: --state warm"


def compiled(name: str) -> tuple[str | None, str | None]:
    """Return the compiler with the floats per vector, and the instruction set of the code."""
    isa, lanes = WIDTHS[name]
    return f"{build.compiler()[1]}, {lanes} floats at a time", isa


def _wide(name: str) -> Variant[Saxpy]:
    return row(
        SUITE,
        name,
        partial(wide, name),
        accepts=partial(accepts, name),
        kernel=partial(compiled, name),
        blas=lambda problem: CALLED[problem.state],
        roles=(),
    )


CALLED = {
    "warm": "y = y/2 + x",
    "flushed": "y = y/2 + x, after the lines of x and y were flushed",
    "swept": "y = y/2 + x, after 256 MiB were read",
}

VARIANTS: tuple[Variant[Saxpy], ...] = (
    row(SUITE, "c", prepare, blas=lambda problem: CALLED[problem.state]),
    *map(_wide, WIDTHS),
)
