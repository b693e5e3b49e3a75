"""One row; what takes its operands out of the caches is run before a visit and not timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.errors import Unavailable
from kernels.native import CALL, launch
from kernels.ops.saxpy.problem import PASSES, SWEEP, Saxpy
from kernels.variant import Bind, Launch, Variant

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("saxpy.c")
POINTER = ctypes.c_void_p


class Argument(ctypes.Structure):
    """`argument` of saxpy.c."""

    _fields_ = (
        ("x", POINTER), ("y", POINTER),
        *((name, ctypes.c_int64) for name in ("count", "rows", "passes", "sweep")),
        ("swept", POINTER),
    )  # fmt: skip


class Swept:
    """What is read to sweep, unmapped with its last user."""

    def __init__(self) -> None:
        self._release = CALL(build.address(SOURCE, "release"))
        self.place = ctypes.c_void_p(None)

    def __del__(self) -> None:
        whole = Argument(sweep=SWEEP, swept=ctypes.addressof(self.place))
        self._release(ctypes.addressof(whole))


def prepare(problem: Saxpy, device: object, setting: object) -> Bind:
    """Raises Unavailable where this processor has no instruction that flushes a line."""
    if problem.state == "flushed" and not build.load(SOURCE).flushes():
        raise Unavailable("this processor flushes no line at a program's wish: --state swept")
    function = build.address(SOURCE, "saxpy")
    ready, swept = build.address(SOURCE, f"{problem.state}_ready"), Swept()

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(
            count=problem.count, rows=problem.rows, passes=PASSES, sweep=SWEEP,
            swept=ctypes.addressof(swept.place),
        )  # fmt: skip
        made = launch(function, argument, ["x", "y"], buffers, keep=(swept,))
        assert made.entry is not None
        return replace(made, entry=replace(made.entry, single=(ready, 0)))

    return bind


CALLED = {
    "warm": "y = y/2 + x",
    "flushed": "y = y/2 + x, after the lines of x and y were flushed",
    "swept": "y = y/2 + x, after 256 MiB were read",
}

VARIANTS: tuple[Variant[Saxpy], ...] = (
    Variant("c", "cpu", "suite", prepare, blas=lambda problem: CALLED[problem.state]),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
