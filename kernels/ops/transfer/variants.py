"""Copies within a process and routes to another one.

A GPU's (pinned, write-combined, registered, pageable; in both directions) are rows of cuda_variants.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernels.libs.torch import TORCH
from kernels.ops.transfer import native
from kernels.ops.transfer.problem import SINGLE, Transfer
from kernels.problem import Work
from kernels.provider import LIBC, NUMPY, SUITE
from kernels.variant import DEFAULT, Variant, row

PEER, TEAM, PLAIN = "peer", "team", "plain"  # roles: into another process; by several threads; for all
BESIDE = "beside"  # of a GPU: a copy, products, and both at once
AWAITED = "awaited"  # … and copies whose caller waits for their end


def at_once(problem: Transfer) -> str | None:
    """Return why a copy that is complete when its call returns cannot run `problem`, or None."""
    if problem.back != "after":
        return "nothing is sent back within a process: --back after"
    return None if problem.waits == "once" else "nobody's word is awaited within a process: --waits once"


def by_device(problem: Transfer) -> str | None:
    """Return why a copy without a caller's wait, or without a GPU's link, cannot run `problem`, or None."""
    return None if problem.clock == "device" else "a caller waits for copies over a GPU's link alone: --clock device"


def within(problem: Transfer) -> str | None:
    """Return why a copy within a processor's or a GPU's memory cannot run `problem`, or None."""
    return at_once(problem) or by_device(problem)


def _along(problem: Transfer) -> str | None:
    """Return why the route whose chunks return while others are sent cannot run `problem`, or None."""
    if problem.back == "along" and (problem.buffers != SINGLE or problem.waits == "each"):
        return "it goes back chunk by chunk: --buffers one --waits once, or --back after"
    return by_device(problem)


def _after(problem: Transfer) -> str | None:
    """Return why a route that returns data only at the end cannot run `problem`, or None."""
    if problem.back != "after":
        return "only shared memory is written in both directions at once: --back after"
    return by_device(problem)


def _through_memory(problem: Transfer) -> Work:
    """Return the work of a copy in and another one out."""
    return Work(0.0, 2 * problem.bytes)


def _peer(name: str, work: Callable[[Transfer], Work] | None = None) -> Variant[Transfer]:
    accepts = _along if name == "shared" else _after
    return row(SUITE, name, partial(native.prepare, name), accepts=accepts, work=work, roles=(PEER,))


VARIANTS: tuple[Variant[Transfer], ...] = (
    row(SUITE, "c", partial(native.c_copy, False), accepts=within, roles=(DEFAULT, TEAM)),
    row(SUITE, "c-stream", partial(native.c_copy, True), accepts=within, roles=(DEFAULT, TEAM)),
    row(LIBC, "memcpy", native.memcpy, accepts=within, roles=(DEFAULT, PLAIN)),
    row(NUMPY, "numpy", native.numpy_copies, accepts=within),
    row(TORCH, "torch", native.torch_copies, accepts=within, roles=(DEFAULT, TEAM)),
    _peer("shared", _through_memory),
    _peer("vm"),
    _peer("pipe", _through_memory),
    _peer("tcp", _through_memory),
)
