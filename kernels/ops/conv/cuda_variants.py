"""Convolutions on a GPU by the suite's kernels, alone or around cuBLAS and cuFFT."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels import grid
from kernels.errors import UsageError
from kernels.libs import cublas
from kernels.libs.cuda import CUDA_SUITE
from kernels.libs.cufft import CUFFT
from kernels.ops.conv import columns, cudnn_plans, cudnn_rows, fft, frames, implicit, winograd_cuda
from kernels.ops.conv.cached_filter import reads_filter
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.winograd import ALGORITHMS
from kernels.ops.conv.winograd import accepts as for_winograd
from kernels.variant import DEFAULT, Variant, row

KEPT = "cufft-kept"


def winograd(problem: Conv) -> str | None:
    """Return why the suite's Winograd kernels cannot do a problem, or None if they can."""
    if problem.layout != "nchw":
        return "its tiles require --layout nchw"
    return for_winograd(problem)


def kept(parameter: str = "") -> Variant[Conv]:
    """Return the variant `cufft-kept[:uses]`: a filter transform serves `uses` convolutions (default 8)."""
    if parameter and not re.fullmatch("[1-9][0-9]*", parameter):
        raise UsageError(f"--variant {KEPT}:{parameter}: uses must be positive, e.g. {KEPT}:8")
    uses = int(parameter or 8)
    return _cufft(f"{KEPT}:{uses}", uses, lambda problem: reads_filter(problem) or fft.accepts(problem), ("fft",))


def _cufft(name: str, uses: int, accepts: Any, roles: tuple[str, ...]) -> Variant[Conv]:
    return row(
        CUFFT,
        name,
        partial(frames.prepare, uses=uses),
        accepts=accepts,
        work=partial(frames.work, uses=uses),
        judged=spread,
        roles=roles,
    )


def _winograd(m: int) -> Variant[Conv]:
    """Return the row of F(m, 3), with the points and the error growth of the CPU's row."""
    name, algorithm, growth, _ = next(x for x in ALGORITHMS if x[0] == f"winograd-{m}x3")
    return row(
        CUDA_SUITE,
        f"cuda-{name}",
        partial(winograd_cuda.prepare, m=m),
        growth=growth,
        accepts=winograd,
        missing=cublas.missing,
        work=algorithm.work,
        kernel=cublas.kernel,
        judged=spread,
        roles=(DEFAULT, "winograd"),
    )


VARIANTS: tuple[Variant[Conv], ...] = (
    *cudnn_rows.ROWS,
    *cudnn_plans.ROWS,
    row(
        CUDA_SUITE,
        "cuda-implicit",
        grid.solving(implicit.SOURCE, implicit.launches, implicit.kernel),
        accepts=implicit.refused,
        work=Conv.direct_work,
        roles=(DEFAULT, "sums"),
    ),
    row(
        CUDA_SUITE,
        "cuda-im2col",
        columns.prepare,
        accepts=columns.accepts,
        missing=cublas.missing,
        kernel=cublas.kernel,
        roles=(DEFAULT, "sums"),
    ),
    *map(_winograd, winograd_cuda.TILES),
    _cufft("cufft", 1, fft.accepts, (DEFAULT, "fft")),
    kept("8"),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {
    "cudnn-find": cudnn_rows.search,
    **cudnn_plans.FAMILIES,
    KEPT: kept,
}
