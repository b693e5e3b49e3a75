"""libxsmm's direct convolution in three passes. It computes in a blocked layout of its own; the copies into it and out
of it, by the library's own plain loops, are in each call, as operands are plain."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.libs import libxsmm
from kernels.maths import INT64, POINTER, alone
from kernels.native import launch
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array
    from kernels.setting import Setting

SOURCE = Path(__file__).with_name("libxsmm.c")
NAMES = ("first", "second", "result")


class Convolution(ctypes.Structure):
    """`convolution` of libxsmm.c."""

    _fields_ = (
        *((name, POINTER) for name in NAMES),
        *((name, INT64) for name in ("pass", "n", "c", "h", "w", "k", "r", "s", "stride", "pad_down", "pad_across")),
        ("layer", POINTER),
        ("tensors", POINTER * 3),
        ("memory", POINTER * 3),
        ("scratch", POINTER),
        ("tensor_bytes", INT64 * 3),
        ("scratch_bytes", INT64),
    )


def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
    alone(setting)
    library = build.load(SOURCE, libxsmm.FLAGS)
    made = Convolution(
        **{name: getattr(problem, name) for name in ("n", "c", "h", "w", "k", "r", "s", "stride")},
        **{"pass": PASSES.index(problem.direction), "pad_down": problem.pad_top, "pad_across": problem.pad_left},
    )
    place = ctypes.byref(made)
    if status := library.libxsmm_prepare(place):
        raise Unavailable(f"libxsmm refuses this one with status {status}")
    blocks = [device.allocate(size) for size in (*made.tensor_bytes, max(1, made.scratch_bytes))]
    made.memory[:], made.scratch = [block.ctypes.data for block in blocks[:3]], blocks[3].ctypes.data
    if status := library.libxsmm_bind(place):
        raise Unavailable(f"libxsmm refuses its memory with status {status}")
    workspace = sum(block.nbytes for block in blocks)
    held = _Layer(made, blocks, library)
    function = build.address(SOURCE, "libxsmm_convolution", libxsmm.FLAGS)

    def bind(buffers: Sequence[Array]) -> Launch:
        own = Convolution.from_buffer_copy(made)
        return launch(function, own, NAMES, buffers, workspace=workspace, keep=(held,))

    return bind


class _Layer:
    """What the library made, released with this."""

    def __init__(self, made: Convolution, blocks: list[Array], library: ctypes.CDLL) -> None:
        self.blocks = blocks
        weakref.finalize(self, library.libxsmm_release, ctypes.byref(made))


def accepts(problem: Conv) -> str | None:
    """Why it cannot do it."""
    if problem.groups > 1 or problem.dilation > 1:
        return "it takes no groups or dilation: --groups 1 --dilation 1"
    if problem.layout != "nchw":
        return "it is given plain images: --layout nchw"
    if (problem.pad_top, problem.pad_left) != (problem.pad_bottom, problem.pad_right):
        return "its padding is the same on both sides: --pad-bottom as --pad-top, --pad-right as --pad-left"
    if problem.direction != "dgrad" and bool(problem.pad_top) != bool(problem.pad_left):  # seen of libxsmm 1.17
        return "it is wrong where rows alone are padded, or columns alone: --pad 1"
    return None


def kernel() -> tuple[str | None, str | None]:
    """The processor that it generates code for."""
    described = build.load(SOURCE, libxsmm.FLAGS).libxsmm_described
    described.restype = ctypes.c_char_p
    return f"libxsmm for {described().decode()}, copies into its own layout and out of it", None


ROWS: tuple[Variant[Conv], ...] = (
    Variant(
        "libxsmm",
        "cpu",
        "libxsmm",
        prepare,
        accepts=accepts,
        missing=libxsmm.missing,
        work=Conv.direct_work,
        kernel=kernel,
        roles=(),
    ),
)
