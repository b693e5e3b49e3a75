"""Convolutions on a GPU by kernels of our own, alone or around cuBLAS's and cuFFT's."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels import grid
from kernels.errors import UsageError
from kernels.libs import cublas, cuda, cufft
from kernels.ops.conv import columns, fft, frames, implicit, winograd_cuda
from kernels.ops.conv.kept import reads_filter
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.staged import Staged
from kernels.ops.conv.winograd_rows import ALGORITHMS
from kernels.ops.conv.winograd_rows import accepts as for_winograd
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.setting import Setting

KEPT = "cufft-kept"


def winograd(problem: Conv) -> str | None:
    """Why it cannot do it."""
    if problem.layout != "nchw":
        return "its tiles are of channels before the pixels: --layout nchw"
    return for_winograd(problem)


def kept(parameter: str = "") -> Variant[Conv]:
    """`cufft-kept[:uses]`: one transform of the filter serves that many uses."""
    if parameter and not re.fullmatch("[1-9][0-9]*", parameter):
        raise UsageError(f"--variant {KEPT}:{parameter}: give the number of uses, as {KEPT}:8")
    uses = int(parameter or 8)
    return _cufft(f"{KEPT}:{uses}", uses, lambda problem: reads_filter(problem) or fft.accepts(problem), ("fft",))


def _cufft(name: str, uses: int, accepts: Any, roles: tuple[str, ...]) -> Variant[Conv]:
    return Variant(
        name,
        "cuda",
        "cufft",
        partial(frames.prepare, uses=uses),
        accepts=accepts,
        missing=cuda.libraries_missing,
        work=partial(frames.work, uses=uses),
        kernel=cufft.kernel,
        judged=spread,
        roles=roles,
    )


def _winograd(m: int) -> Variant[Conv]:
    """With the points and the growth of the processor's rows."""
    name, algorithm, growth, _ = next(x for x in ALGORITHMS if x[0] == f"winograd-{m}x3")
    return Variant(
        f"cuda-{name}",
        "cuda",
        "suite",
        partial(winograd_cuda.prepare, m=m),
        growth=growth,
        accepts=winograd,
        missing=cublas.missing,
        work=algorithm.work,
        kernel=cublas.kernel,
        judged=spread,
        roles=(DEFAULT, "winograd", *["stages"] * (m == 4)),
    )


ROWS: tuple[Variant[Conv], ...] = (
    Variant(
        "cuda-implicit",
        "cuda",
        "suite",
        grid.solving(implicit),
        accepts=implicit.refused,
        missing=cuda.missing,
        work=Conv.direct_work,
        roles=(DEFAULT, "sums"),
    ),
    Variant(
        "cuda-im2col",
        "cuda",
        "suite",
        columns.prepare,
        accepts=columns.accepts,
        missing=cublas.missing,
        work=columns.work,
        kernel=cublas.kernel,
        roles=(DEFAULT, "sums"),
    ),
    *map(_winograd, winograd_cuda.TILES),
    _cufft("cufft", 1, fft.accepts, (DEFAULT, "fft", "stages")),
    kept("8"),
)
FAMILIES = {KEPT: kept}
STAGED: dict[str, Callable[[Conv, Any, Setting], Staged]] = {
    "cufft": frames.staged,
    **{f"cuda-winograd-{m}x3": partial(winograd_cuda.staged, m=m) for m in winograd_cuda.TILES},
}
