"""Copies between a GPU and its host, and within the GPU, with the roles of variants.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.libs import cuda, pycuda
from kernels.libs.cublas import CUBLAS
from kernels.libs.cuda import CUDA_RUNTIME, CUPY
from kernels.ops.transfer import gpu
from kernels.ops.transfer.problem import SINGLE, Transfer
from kernels.ops.transfer.variants import AWAITED, BESIDE, PLAIN, at_once, within
from kernels.problem import Work
from kernels.provider import Provider
from kernels.variant import DEFAULT, Variant, row

BY_PYCUDA = Provider("pycuda", "cuda", lambda: cuda.missing() or pycuda.missing(), cuda.kernel, python=True)


def _way(kind: str, way: str, roles: tuple[str, ...]) -> Variant[Transfer]:
    """Return a variant that copies over the link; its work counts each byte once per crossing."""
    call = row(
        {"pycuda": BY_PYCUDA, "cupy": CUPY}.get(kind, CUDA_RUNTIME),
        f"{way}-{kind}",
        partial(gpu.round_trip, kind),
        accepts=_by_caller if kind == "pageable" else at_once,
        work=lambda problem: Work(0.0, float(problem.size * (2 if way == "both" else 1))),
        python=True,
        roles=roles,
        link=True,
    )
    return _timed(call, partial(gpu.alone, kind, way))


def _timed(call: Variant[Transfer], prepare: Callable[..., Any]) -> Variant[Transfer]:
    """Return the variant `call`, which is checked, with `prepare` timed in its place."""
    part = replace(call, name=f"{call.name} alone", prepare=prepare)
    return replace(call, parts=lambda problem: ((part, 1),))


def _beside(name: str, prepare: Callable[..., Any], nbytes: Callable[[Transfer], float]) -> Variant[Transfer]:
    """Return a variant of role BESIDE, which moves at least `nbytes(problem)` bytes."""
    call = row(
        CUBLAS,
        name,
        partial(gpu.round_trip, "pinned"),
        accepts=within,
        work=lambda problem: Work(0.0, nbytes(problem)),
        python=True,
        roles=(BESIDE,),
    )
    return _timed(call, prepare)


def _one_buffer(problem: Transfer) -> str | None:
    return within(problem) or (None if problem.buffers == SINGLE else "it copies a single array: --buffers one")


def _by_caller(problem: Transfer) -> str | None:
    if problem.on_host:
        return at_once(problem)
    return "a copy from pageable memory would wait for the held stream: --clock caller"


VARIANTS: tuple[Variant[Transfer], ...] = (
    _way("pinned", "h2d", (DEFAULT, PLAIN, BESIDE, AWAITED)),
    _way("pinned", "d2h", (DEFAULT, AWAITED)),
    _way("pinned", "both", (DEFAULT,)),
    _way("combined", "h2d", (DEFAULT,)),
    _way("registered", "h2d", (DEFAULT,)),
    _way("registered", "d2h", (DEFAULT,)),
    _way("pycuda", "h2d", (DEFAULT,)),
    _way("pycuda", "d2h", (DEFAULT,)),
    _way("cupy", "h2d", (DEFAULT,)),
    _way("cupy", "d2h", (DEFAULT,)),
    _way("pageable", "h2d", (AWAITED,)),
    _way("pageable", "d2h", (AWAITED,)),
    _beside("products", gpu.products, lambda problem: gpu.SQUARE.bytes),
    _beside("h2d-beside-products", gpu.both, lambda problem: float(problem.size)),
    row(CUDA_RUNTIME, "d2d", gpu.within, accepts=within),
    row(CUPY, "d2d-cupy", gpu.by_cupy, accepts=_one_buffer, roles=()),
)
