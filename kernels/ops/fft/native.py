"""Transforms by the kernel of fft.c; each thread has a share of the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build, openmp
from kernels.launch import Bind, Launch
from kernels.maths import INT64, flags
from kernels.native import structure
from kernels.ops.fft.problem import Fft
from kernels.setting import Setting

if TYPE_CHECKING:
    from kernels.problem import Array


SOURCE = Path(__file__).with_name("fft.c")
PAGE = 4096  # bytes
LEAST = 32  # two of the widest vectors
# C struct `argument` of fft.c.
# It covers `batch` images from x and y on, which may be any of a problem's.
Argument = structure("pointer: x y workspace waves", "int64: batch h w")


def waves(problem: Fft) -> Array:
    """Return the unit circle in w steps, then in h steps: clockwise to a spectrum, counterclockwise back."""
    import numpy as np

    turn = -2j if problem.direction == "r2c" else 2j
    circles = [np.exp(turn * np.pi * np.arange(n) / n) for n in (problem.w, problem.h)]
    return np.concatenate(circles).astype(np.complex64)


def accepts(problem: Fft) -> str | None:
    """Return why fft.c cannot run `problem`, or None: its passes have radix 4 and 2 and full vectors."""
    fits = all(n >= LEAST and n & (n - 1) == 0 for n in (problem.h, problem.w))
    return None if fits else f"its lengths are powers of two from {LEAST} on: --h 64 --w 64"


def prepare(problem: Fft, device: Any, setting: Setting) -> Bind:
    """Prepare the kernel of fft.c. Raises Unavailable, BuildError."""
    compiler_flags = (*flags(), *openmp.flags(setting))
    function = build.address(SOURCE, f"fft_{problem.direction}", compiler_flags)
    kernel = openmp.compiled(SOURCE, compiler_flags, setting)
    size = build.load(SOURCE, compiler_flags).fft_workspace
    size.argtypes, size.restype = (INT64, INT64), INT64
    table, each = waves(problem), -(-size(problem.h, problem.w) // PAGE) * PAGE
    block = device.allocate(each * setting.threads)
    images = {x.name: x.nbytes // problem.batch for x in problem.operands()}
    axis = openmp.Axis("batch", problem.batch, images, apart={"workspace": each})

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(
            workspace=block.ctypes.data, waves=table.ctypes.data, batch=problem.batch, h=problem.h, w=problem.w
        )
        more = {"workspace": block.nbytes + table.nbytes, "kernel": kernel}
        return openmp.launched(function, argument, "xy", buffers, setting, axis, (block, table), **more)

    return bind
