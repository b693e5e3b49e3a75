"""Our own direct convolution: sums in vector registers, all three passes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build, maths
from kernels.native import launch
from kernels.ops.conv.im2col import geometry
from kernels.ops.conv.problem import Conv
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch, Setting
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("direct.c")
LAYOUTS = ("nchw", "nhwc", "nchw16c")  # by their numbers there
DIRECTIONS = ("forward", "dgrad", "wgrad")


class Argument(ctypes.Structure):
    """`problem` of direct.c."""

    _fields_ = (
        *((name, maths.POINTER) for name in ("x", "w", "y", "scratch")),
        *((name, maths.INT64) for name in ("images", "channels", "height", "width", "filters", "rows", "taps_across")),
        *((name, maths.INT64) for name in ("stride", "top", "left", "dilation", "groups", "down", "across")),
        *((name, maths.INT64) for name in ("layout", "direction")),
    )


def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
    maths.alone(setting)
    function = maths.address(SOURCE, "direct")
    numbers = {"layout": LAYOUTS.index(problem.layout), "direction": DIRECTIONS.index(problem.direction)}
    fields = geometry(problem) | numbers
    size = workspace(Argument(**fields))
    scratch = device.allocate(size)
    fields["scratch"] = scratch.ctypes.data

    def bind(buffers: Sequence[Array]) -> Launch:
        names = [operand.name[-1] for operand in problem.operands()]
        return launch(function, Argument(**fields), names, buffers, workspace=size, keep=(scratch,))

    return bind


def workspace(argument: Argument) -> int:
    """Bytes."""
    function = build.load(SOURCE, maths.flags()).direct_workspace
    function.restype = ctypes.c_int64
    size: int = function(ctypes.byref(argument))
    return size


ROWS: tuple[Variant[Conv], ...] = (
    Variant("direct", "cpu", "suite", prepare, work=Conv.direct_work, roles=(DEFAULT, "sums")),
)
