"""Convolution by transforms of tiles of 16 × 16 and of 32 × 32: SciPy's and FFTW's; the filter's spectrum made in each
call, or kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.maths import alone
from kernels.ops.conv import fft_rows, tiled
from kernels.ops.conv import kept as kept_of
from kernels.ops.conv.fft_rows import ASKED, BY_FFTW, FFTW, SCIPY
from kernels.ops.conv.problem import Conv, spread
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Setting
    from kernels.ops.conv import fft

SIZES = (16, 32)


def prepare(
    problem: Conv, device: Any, setting: Setting, *, library: fft.Library, size: int, kept: bool = False
) -> Bind:
    alone(setting)
    if kept:
        kept_of.refuse_cold(setting)
    made = tiled.plan(problem, device, fft_rows.blas_of_one(), library, size)
    return fft_rows.bound(problem, made.workspace, partial(tiled.call, made, size), kept)


def _rows(size: int, library: str, how: fft.Library, roles: tuple[str, ...], **more: Any) -> tuple[Variant[Conv], ...]:
    row = Variant(
        f"fft-tiled-{size}-{library}",
        "cpu",
        library,
        partial(prepare, library=how, size=size),
        accepts=partial(tiled.accepts, size=size),
        work=partial(tiled.work, size=size),
        judged=spread,
        python=True,
        roles=roles,
        **more,
    )
    kept = partial(prepare, library=how, size=size, kept=True)
    return row, fft_rows.keeping(row, kept, partial(tiled.work, size=size, kept=True), ASKED if roles else ())


ROWS: tuple[Variant[Conv], ...] = tuple(
    row
    for size in SIZES
    for row in (
        *_rows(size, "scipy", fft_rows.by_scipy, (), **SCIPY),
        *_rows(size, "pyfftw", BY_FFTW["measure"], ASKED, **FFTW),
    )
)
