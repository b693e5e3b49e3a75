"""What moves numbers: copies within a process, ways into another one. A GPU's (pinned, write-combined, registered;
there, and back) are rows of cuda_variants.py, in the same roles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.libs import torch as torch_library
from kernels.ops.transfer import copies, peers
from kernels.ops.transfer.problem import ONE, Transfer
from kernels.problem import Work
from kernels.variant import DEFAULT, Variant

PEER, TEAM, PLAIN = "peer", "team", "plain"  # roles: into another process; by several threads; for all
BESIDE = "beside"  # of a GPU: a copy, products, and both at once


def at_once(problem: Transfer) -> str | None:
    """For what has all arrived when its call ends."""
    if problem.back != "after":
        return "nothing is sent back within a process: --back after"
    return None if problem.waits == "once" else "nobody's word is awaited within a process: --waits once"


def _along(problem: Transfer) -> str | None:
    """For the route whose chunks can come back while others go."""
    if problem.back == "along" and (problem.buffers != ONE or problem.waits == "each"):
        return "it goes back chunk by chunk: --buffers one --waits once, or --back after"
    return None


def _after(problem: Transfer) -> str | None:
    """For the others."""
    return None if problem.back == "after" else "only shared memory is written in both directions at once: --back after"


def _through_memory(problem: Transfer) -> Work:
    """Copied in, and out again."""
    return Work(0.0, 2 * problem.bytes)


def _peer(name: str, work: Callable[[Transfer], Work] | None = None) -> Variant[Transfer]:
    accepts = _along if name == "shared" else _after
    return Variant(name, "cpu", "suite", partial(peers.prepare, name), accepts=accepts, work=work, roles=(PEER,))


VARIANTS: tuple[Variant[Transfer], ...] = (
    Variant("c", "cpu", "suite", partial(copies.own, False), accepts=at_once, roles=(DEFAULT, TEAM)),
    Variant("c-stream", "cpu", "suite", partial(copies.own, True), accepts=at_once, roles=(DEFAULT, TEAM)),
    Variant("memcpy", "cpu", "libc", copies.memcpy, accepts=at_once, roles=(DEFAULT, PLAIN)),
    Variant("numpy", "cpu", "numpy", copies.numpy_copies, accepts=at_once, python=True),
    Variant(
        "torch",
        "cpu",
        "torch",
        copies.torch_copies,
        accepts=at_once,
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
        roles=(DEFAULT, TEAM),
    ),
    _peer("shared", _through_memory),
    _peer("vm"),
    _peer("pipe", _through_memory),
    _peer("tcp", _through_memory),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
