"""Convolution by transforms of tiles of 16 × 16 and of 32 × 32: SciPy's and FFTW's; the filter's spectrum made in each
call, or kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.maths import alone
from kernels.ops.conv import fft_rows, tiled
from kernels.ops.conv import kept as kept_of
from kernels.ops.conv.fft_rows import APART, ASKED, BY_FFTW, FFTW, SCIPY
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.staged import Staged
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.ops.conv import fft
    from kernels.setting import Setting

SIZES = (16, 32)


def prepare(
    problem: Conv, device: Any, setting: Setting, *, library: fft.Library, size: int, kept: bool = False
) -> Bind:
    alone(setting)
    if kept:
        kept_of.refuse_cold(setting)
    made = tiled.plan(problem, device, fft_rows.blas_of_one(), library, size)
    return fft_rows.bound(problem, made.workspace, partial(tiled.call, made, size), kept)


def staged(problem: Conv, device: Any, setting: Setting, *, library: fft.Library, size: int) -> Staged:
    """Of the row that transforms the filter in each call."""
    alone(setting)
    made = tiled.plan(problem, device, fft_rows.blas_of_one(), library, size)
    parts = partial(tiled.stages, made, size)
    whole = fft_rows.bound(problem, made.workspace, partial(tiled.call, made, size))
    return Staged(whole, fft_rows.apart(problem, parts, tiled.by_stage(problem, size)))


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
        *_rows(size, "pyfftw", BY_FFTW["measure"], (*ASKED, *(APART if size == SIZES[0] else ())), **FFTW),
    )
)
STAGED: dict[str, Callable[[Conv, Any, Setting], Staged]] = {
    f"fft-tiled-{size}-pyfftw": partial(staged, library=BY_FFTW["measure"], size=size) for size in SIZES
}
