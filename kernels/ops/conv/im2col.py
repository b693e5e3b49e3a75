"""Convolutions as OpenBLAS products: columns of whole images or of blocks, or the image itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import maths
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs import openblas
from kernels.libs.openblas import OPENBLAS
from kernels.native import launch, structure
from kernels.ops.conv.problem import Conv
from kernels.problem import Array
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("im2col.c")
LIMIT = 512 << 10  # bytes of a block's columns without --workspace: they stay in a core's second-level cache
PIECE = 16  # outputs of which a block is a multiple, as the library's blocks are
Block = Callable[[Conv, "Setting"], int]
# `problem` of im2col.c
Argument = structure(
    "pointer: x w y columns sgemm",
    "int64: images channels height width filters rows taps_across stride top left dilation groups down across block",
    "int32: wide last",
)


def whole_image(problem: Conv, setting: Setting) -> int:
    """Return the outputs of a block that covers an image."""
    return problem.outputs_of_image


def limited(problem: Conv, setting: Setting) -> int:
    """Return the outputs whose columns fit --workspace, by default LIMIT; 0 if --workspace is too small."""
    column = _column(problem)
    most = max(1, LIMIT // column) if setting.workspace is None else setting.workspace // column
    return min(problem.outputs_of_image, most if most < PIECE else most - most % PIECE)


def workspace(problem: Conv, setting: Setting, block: Block) -> int:
    """Return the bytes of the columns of one group. Raises Unavailable if --workspace is too small."""
    outputs = block(problem, setting)
    if not outputs:
        raise Unavailable(f"the workspace is too small for one output's columns: --workspace {_column(problem)}")
    return outputs * _column(problem)


def _column(problem: Conv) -> int:
    return 4 * problem.c // problem.groups * problem.r * problem.s


def prepare(problem: Conv, device: Any, setting: Setting, block: Block | None) -> Bind:
    """Prepare products of blocks of outputs, or of the image without columns if `block` is None."""
    maths.alone(setting)
    blas = openblas.load("numpy")
    blas.set_threads(1)
    function = maths.address(SOURCE, f"im2col_{problem.direction}")
    size = workspace(problem, setting, block) if block else 0
    columns = device.allocate(size) if block else None
    fields = geometry(problem)
    if block is None and problem.layout == "nhwc":  # the batch is one image, its pixels one matrix
        fields |= {"images": 1, "height": problem.n * problem.h, "down": problem.n * problem.h}
    fields["block"] = block(problem, setting) if block else fields["down"] * fields["across"]
    fields |= {
        "sgemm": blas.sgemm,
        "wide": blas.wide,
        "last": problem.layout == "nhwc",
        "columns": None if columns is None else columns.ctypes.data,
    }

    def bind(buffers: Sequence[Array]) -> Launch:
        names = [operand.name[-1] for operand in problem.operands()]
        return launch(function, Argument(**fields), names, buffers, workspace=size, keep=(columns,))

    return bind


def geometry(problem: Conv) -> dict[str, Any]:
    """Return the problem's sizes by their names in the C files of convolutions."""
    down, across = problem.lines
    return {
        "images": problem.n,
        "channels": problem.c,
        "height": problem.h,
        "width": problem.w,
        "filters": problem.k,
        "rows": problem.r,
        "taps_across": problem.s,
        "stride": problem.stride,
        "top": problem.pad_top,
        "left": problem.pad_left,
        "dilation": problem.dilation,
        "groups": problem.groups,
        "down": down.outputs,
        "across": across.outputs,
    }


def plain(problem: Conv) -> str | None:
    """Return why columns cannot hold a problem's layout, or None if they can."""
    return "layout not supported: --layout nchw or nhwc" if problem.layout == "nchw16c" else None


def one_by_one(problem: Conv) -> str | None:
    """Return why the image cannot serve as its columns, or None if it can."""
    if (problem.r, problem.s, problem.stride) != (1, 1, 1):
        return "only for 1x1 filters without stride: --r 1 --s 1 --stride 1"
    if any((problem.pad_top, problem.pad_left, problem.pad_bottom, problem.pad_right)):
        return "does not support padding: --pad-top 0 --pad-left 0 --pad-bottom 0 --pad-right 0"
    return plain(problem)


def _row(
    name: str, block: Block | None, roles: tuple[str, ...], accepts: Callable[[Conv], str | None]
) -> Variant[Conv]:
    return row(OPENBLAS, name, partial(prepare, block=block), accepts=accepts, roles=roles)


ROWS: tuple[Variant[Conv], ...] = (
    _row("im2col", whole_image, (DEFAULT,), plain),
    _row("im2col-blocks", limited, ("search",), plain),
    _row("gemm-1x1", None, (DEFAULT,), one_by_one),
)
