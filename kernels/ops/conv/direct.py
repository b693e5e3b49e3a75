"""The suite's direct convolution: sums in vector registers, in all three passes."""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels import build, maths, openmp
from kernels.launch import Bind, Launch
from kernels.native import structure
from kernels.ops.conv.im2col import geometry
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.problem import Array
from kernels.provider import SUITE
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

HERE = Path(__file__).parent
LAYOUT = HERE / "layout.c"
PAGE = 4096  # bytes
FEW = 8  # output channels of a group, up to which few_channels.c runs: half a vector of 16 lanes
LAYOUTS = ("nchw", "nhwc", "nchw16c")  # by their numbers in direct.c


# `problem` of direct.c
Argument = structure(
    "pointer: x w y scratch",
    "int64: images channels height width filters rows taps_across stride top left dilation groups down across",
    "int64: layout direction",
)


def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
    name = file_of(problem)
    if problem.direction == "wgrad":  # all images are summed
        maths.alone(setting)
    source, compiler_flags = HERE / f"{name}.c", (*flags(), *openmp.flags(setting))
    function, kernel = build.address(source, name, compiler_flags), openmp.compiled(source, compiler_flags, setting)
    numbers = {"layout": LAYOUTS.index(problem.layout), "direction": PASSES.index(problem.direction)}
    fields = geometry(problem) | numbers
    each = workspace(name, Argument(**fields), compiler_flags)
    size = each * setting.threads
    scratch = device.allocate(size)
    fields["scratch"] = scratch.ctypes.data
    images = {x.name[-1]: x.nbytes // problem.n for x in problem.operands() if x.name[-1] != "w"}
    axis = openmp.Axis("images", problem.n, images, apart={"scratch": each})

    def bind(buffers: Sequence[Array]) -> Launch:
        names = [operand.name[-1] for operand in problem.operands()]
        argument = Argument(**fields)
        more = {"workspace": size, "kernel": kernel}
        return openmp.launched(function, argument, names, buffers, setting, axis, (scratch,), **more)

    return bind


def file_of(problem: Conv) -> str:
    """Return the name of a problem's C file, which is also its function's name.

    A separate file serves few outputs of a group, which would leave most vector lanes idle."""
    outputs = problem.c if problem.direction == "dgrad" else problem.k
    if outputs // problem.groups <= FEW:
        return "few_channels"
    return "filters" if problem.direction == "wgrad" else "direct"


def workspace(name: str, argument: ctypes.Structure, compiler_flags: tuple[str, ...]) -> int:
    """Return the bytes of one thread's workspace in whole pages, as the C file computes them."""
    function = build.load(HERE / f"{name}.c", compiler_flags)[f"{name}_workspace"]
    function.restype = ctypes.c_int64
    return -(-int(function(ctypes.byref(argument))) // PAGE) * PAGE


@functools.cache
def flags() -> tuple[str, ...]:
    """Return the compiler flags that include layout.c, with its digest so that a change recompiles."""
    return (*maths.flags(), "-include", str(LAYOUT), f"-DLAYOUT={zlib.crc32(LAYOUT.read_bytes())}")


ROWS: tuple[Variant[Conv], ...] = (
    row(SUITE, "direct", prepare, work=Conv.direct_work, roles=(DEFAULT, "sums", "layouts")),
)
