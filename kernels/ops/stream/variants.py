"""One kernel of each kind in C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.native import launch
from kernels.ops.stream.problem import Stream
from kernels.variant import Bind, Launch, Variant

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("stream.c")


class Argument(ctypes.Structure):
    _fields_ = (
        ("a", ctypes.c_void_p),
        ("b", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("count", ctypes.c_int64),
    )


def prepare(problem: Stream, device: object, setting: object) -> Bind:
    function = build.address(SOURCE, f"stream_{problem.kind}")
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Argument(count=problem.count), names, buffers)

    return bind


VARIANTS = (Variant("c", "cpu", "suite", prepare),)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
