"""The kernel of fft.c, on one thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build
from kernels.launch import Bind, Launch, Setting
from kernels.maths import INT64, POINTER, alone, flags
from kernels.native import launch
from kernels.ops.fft.problem import Fft

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("fft.c")
LEAST = 32  # two of the widest vectors


class Argument(ctypes.Structure):
    """`argument` of fft.c; `batch` images from x and y on, which may be any of a problem's."""

    _fields_ = (
        *((name, POINTER) for name in ("x", "y", "workspace", "waves")),
        *((name, INT64) for name in ("batch", "h", "w")),
    )


def waves(problem: Fft) -> Array:
    """The circle in w steps, then in h steps: clockwise to a spectrum, the other way round back."""
    import numpy as np

    turn = -2j if problem.direction == "r2c" else 2j
    circles = [np.exp(turn * np.pi * np.arange(n) / n) for n in (problem.w, problem.h)]
    return np.concatenate(circles).astype(np.complex64)


def accepts(problem: Fft) -> str | None:
    """Why it cannot: its passes are of radix 4 and 2, its vectors of full lanes."""
    whole = all(n >= LEAST and n & (n - 1) == 0 for n in (problem.h, problem.w))
    return None if whole else f"its lengths are powers of two from {LEAST} on: --h 64 --w 64"


def prepare(problem: Fft, device: Any, setting: Setting) -> Bind:
    """Raises Unavailable, BuildError."""
    alone(setting)
    function = build.address(SOURCE, f"fft_{problem.direction}", flags())
    size = build.load(SOURCE, flags()).fft_workspace
    size.argtypes, size.restype = (INT64, INT64), INT64
    table, nbytes = waves(problem), size(problem.h, problem.w)
    block = device.allocate(nbytes)

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(
            workspace=block.ctypes.data, waves=table.ctypes.data, batch=problem.batch, h=problem.h, w=problem.w
        )
        return launch(function, argument, "xy", buffers, workspace=nbytes + table.nbytes, keep=(block, table))

    return bind
