"""NNPACK's convolutions by the name of the algorithm. PyTorch carries the library, and exports it without promising to.

It has a forward pass alone; the images' gradient is the forward pass of the turned filter, which is turned within the
call. On one thread it takes no pool.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.errors import Unavailable
from kernels.libs import nnpack
from kernels.maths import alone
from kernels.native import launch
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.winograd import Winograd
from kernels.problem import Work
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.problem import Array
    from kernels.setting import Setting

SOURCE = Path(__file__).with_name("nnpack.c")
NAMES = ("first", "second", "result")
SIZE, INT64, POINTER = ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p
WINOGRAD = Winograd(("1", "2", "1/2"))  # its points of F(6,3)


class Convolution(ctypes.Structure):
    """`struct convolution` of nnpack.c."""

    _fields_ = (
        *((name, POINTER) for name in (*NAMES, "function")),
        *((name, INT64) for name in ("algorithm", "batch", "inputs", "outputs")),
        *((name, SIZE) for name in ("width", "height", "top", "right", "bottom", "left", "columns", "rows")),
        *((name, POINTER) for name in ("bias", "turned", "scratch")),
        ("scratch_size", SIZE),
    )


def prepared(algorithm: str) -> Callable[[Conv, Any, Setting], Bind]:
    """Its scratch is asked for before anything runs; a filter to be turned has room beside it."""

    def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
        alone(setting)
        fields = _fields(problem) | {"algorithm": nnpack.ALGORITHMS[algorithm], "function": nnpack.function()}
        blocks = [device.allocate(4 * fields["outputs"])]
        blocks[0][:] = 0
        fields["bias"] = blocks[0].ctypes.data
        if problem.direction == "dgrad":
            blocks.append(device.allocate(4 * math.prod(problem.operands()[1].shape)))
            fields["turned"] = blocks[-1].ctypes.data
        asked = Convolution(**fields)
        if status := build.load(SOURCE).nnpack_scratch(ctypes.byref(asked)):
            raise Unavailable(f"NNPACK refuses this one with status {status}")
        blocks.append(device.allocate(asked.scratch_size))
        fields |= {"scratch": blocks[-1].ctypes.data, "scratch_size": asked.scratch_size}
        function = build.address(SOURCE, "nnpack_convolution")
        workspace = sum(block.nbytes for block in blocks)

        def bind(buffers: Sequence[Array]) -> Launch:
            return launch(function, Convolution(**fields), NAMES, buffers, workspace=workspace, keep=tuple(blocks))

        return bind

    return prepare


def _fields(problem: Conv) -> dict[str, Any]:
    """Of a forward pass that computes the same."""
    down, across = problem.lines
    pads = {"top": problem.pad_top, "left": problem.pad_left, "bottom": problem.pad_bottom, "right": problem.pad_right}
    sizes = {"batch": problem.n, "rows": problem.r, "columns": problem.s}
    if problem.direction == "forward":
        sizes |= {"inputs": problem.c, "outputs": problem.k, "height": problem.h, "width": problem.w}
        return sizes | pads
    sizes |= {"inputs": problem.k, "outputs": problem.c, "height": down.outputs, "width": across.outputs}
    taps = {"top": problem.r, "bottom": problem.r, "left": problem.s, "right": problem.s}
    return sizes | {side: taps[side] - 1 - pad for side, pad in pads.items()}


def accepts(algorithm: str, problem: Conv) -> str | None:
    """Why it cannot do it."""
    if problem.direction == "wgrad":
        return "PyTorch's copy lacks the filter's gradient: --direction forward or dgrad"
    if problem.layout != "nchw":
        return "it has no such layout: --layout nchw"
    if problem.stride > 1 or problem.dilation > 1 or problem.groups > 1:
        return "it takes no strides, dilation or groups: --stride 1 --dilation 1 --groups 1"
    tile = nnpack.TILES[algorithm]
    if algorithm == "wt8x8" and (problem.r, problem.s) != (3, 3):
        return "it is for filters of 3x3: --r 3 --s 3"
    if max(problem.r, problem.s) > tile:
        return f"a filter fits into its tile up to {tile}x{tile}: --r {min(problem.r, tile)} --s {min(problem.s, tile)}"
    return _padded(problem)


def _padded(problem: Conv) -> str | None:
    """Why it cannot do its padding: less than a filter, of the pass that it takes for this one."""
    fields = _fields(problem)
    taps = {"top": problem.r, "bottom": problem.r, "left": problem.s, "right": problem.s}
    for side, many in taps.items():
        if not 0 <= fields[side] < many:
            return f"it takes padding below the length of a filter: --pad-{side} {many - 1}"
    return None


def work(algorithm: str, problem: Conv) -> Work:
    """Of all tiles the products, and the transforms of images, results and filters. Of bytes the operands alone are
    sure: the transforms lie in cache in part."""
    if algorithm == "wt8x8":
        return WINOGRAD.work(problem)
    tile, forward = nnpack.TILES[algorithm], problem.direction == "forward"
    results = zip(problem.lines, (problem.r, problem.s), strict=True)
    lengths = ((line.outputs if forward else line.size, tile - taps + 1) for line, taps in results)
    tiles = problem.n * math.prod(-(-length // fresh) for length, fresh in lengths)
    products = 4.0 * tile**2 * tiles * problem.c * problem.k  # half as many complex ones
    planes = tiles * (problem.c + problem.k) + problem.c * problem.k
    return Work(products + 2.5 * tile**2 * math.log2(tile**2) * planes, problem.bytes)


def _row(algorithm: str, roles: tuple[str, ...], growth: float = 1.0) -> Variant[Conv]:
    return Variant(
        f"nnpack-{algorithm}",
        "cpu",
        "nnpack",
        prepared(algorithm),
        growth=growth,
        accepts=partial(accepts, algorithm),
        missing=nnpack.missing,
        work=partial(work, algorithm),
        kernel=nnpack.kernel,
        judged=spread,
        roles=roles,
    )


# Of wt8x8, F(6,3). Largest errors in shares of the bounds of a direct sum (kernels/ops/conv/allowed.py): of dense data
# 3.4, of sparse ones 9.5, the images smallest. By Fourier's transform they are smaller than those of sums.
GROWTH = 16.0
ROWS: tuple[Variant[Conv], ...] = (_row("ft8x8", ()), _row("ft16x16", (DEFAULT, "fft")), _row("wt8x8", (), GROWTH))
