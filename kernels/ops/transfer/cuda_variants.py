"""Copies between a GPU and its host, and within the GPU, in the roles of the table beside this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.libs import cuda
from kernels.ops.transfer import cuda_copies
from kernels.ops.transfer.problem import ONE, Transfer
from kernels.ops.transfer.variants import PLAIN, at_once
from kernels.problem import Work
from kernels.variant import DEFAULT, Variant


def _way(kind: str, way: str, roles: tuple[str, ...]) -> Variant[Transfer]:
    """Its whole call is checked, the way alone is timed; of its bytes each crosses the link once."""
    row = Variant(
        f"{way}-{kind}",
        "cuda",
        "cuda",
        partial(cuda_copies.whole, kind),
        accepts=at_once,
        missing=cuda.missing,
        work=lambda problem: Work(0.0, float(problem.size * (2 if way == "both" else 1))),
        python=True,
        kernel=cuda.kernel,
        roles=roles,
    )
    part = replace(row, name=f"{row.name} alone", prepare=partial(cuda_copies.alone, kind, way))
    return replace(row, parts=lambda problem: ((part, 1),))


def _one_buffer(problem: Transfer) -> str | None:
    return at_once(problem) or (None if problem.buffers == ONE else "it copies a whole array: --buffers one")


WITHIN: dict[str, Any] = {"missing": cuda.missing, "kernel": cuda.kernel}
VARIANTS: tuple[Variant[Transfer], ...] = (
    _way("pinned", "h2d", (DEFAULT, PLAIN)),
    _way("pinned", "d2h", (DEFAULT,)),
    _way("pinned", "both", (DEFAULT,)),
    _way("combined", "h2d", (DEFAULT,)),
    _way("registered", "h2d", (DEFAULT,)),
    _way("registered", "d2h", (DEFAULT,)),
    Variant("d2d", "cuda", "cuda", cuda_copies.within, accepts=at_once, roles=(DEFAULT,), **WITHIN),
    Variant("d2d-cupy", "cuda", "cupy", cuda_copies.by_cupy, accepts=_one_buffer, python=True, roles=(), **WITHIN),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
