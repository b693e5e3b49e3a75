"""Rows of our own Winograd convolutions: by tile and points, the filter's transform in each call or kept."""

from __future__ import annotations

from functools import partial
from typing import Any

from kernels.catalog import find
from kernels.libs import openblas
from kernels.ops.conv.cook_toom import TAPS
from kernels.ops.conv.problem import Conv, spread
from kernels.ops.conv.winograd import Winograd
from kernels.variant import DEFAULT, Variant


def accepts(problem: Conv, *, kept: bool = False) -> str | None:
    if (problem.r, problem.s) != (TAPS, TAPS):
        return "it is for filters of 3 × 3: --r 3 --s 3"
    if problem.stride != 1 or problem.dilation != 1:
        return "its tiles share no outputs that are apart: --stride 1 --dilation 1"
    if problem.groups != 1:
        return "it multiplies all channels: --groups 1"
    if kept and problem.direction == "wgrad":
        return "the filter's gradient is made, no filter to keep: --direction forward or dgrad"
    return None


def called(problem: Conv) -> str:
    """The products, one for each place of a tile, as a column-major BLAS sees them."""
    form = "TN = sgemm(N,T)" if problem.direction == "wgrad" else "NN = sgemm(N,N)"
    return f"{form}, one a place of a tile"


def row(name: str, algorithm: Winograd, growth: float, roles: tuple[str, ...], *, kept: bool = False) -> Variant[Conv]:
    more: dict[str, Any] = {"constant": ("w",)} if kept else {}
    return Variant(
        f"{name}-kept" if kept else name,
        "cpu",
        "suite",
        partial(algorithm.prepare, kept=kept),
        growth=growth,
        accepts=partial(accepts, kept=kept),
        missing=partial(openblas.missing, "numpy"),
        work=partial(algorithm.work, kept=kept),
        blas=called,
        kernel=lambda: find("gemm", "openblas").kernel(),
        judged=spread,
        roles=() if kept else roles,
        **more,
    )


# Growth: the largest errors in shares of the bounds of a direct sum (kernels/ops/conv/allowed.py), of 320 problems of 1
# to 512 channels and 1 to 60 rows in three passes, were 0.3, 1.9, 4.2 and 7.4, all of sparse data; of dense data 0.2,
# 0.9, 3.0 and 4.3. Twice that is allowed.
ALGORITHMS: tuple[tuple[str, Winograd, float, tuple[str, ...]], ...] = (
    ("winograd-2x3", Winograd(("1",)), 1.0, ("winograd",)),
    ("winograd-4x3", Winograd(("5/8", "3/2")), 4.0, (DEFAULT, "winograd")),
    ("winograd-4x3-textbook", Winograd(("1", "2")), 9.0, ()),
    ("winograd-6x3", Winograd(("1", "2", "1/2")), 15.0, ("winograd",)),  # of all triples of eighths the most precise
)
ROWS: tuple[Variant[Conv], ...] = tuple(row(*x, kept=kept) for kept in (False, True) for x in ALGORITHMS)
