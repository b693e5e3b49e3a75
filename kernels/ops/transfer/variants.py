"""What moves numbers: copies within a process, ways into another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.libs import torch as torch_library
from kernels.ops.transfer import copies, peers
from kernels.ops.transfer.problem import Transfer
from kernels.problem import Work
from kernels.variant import Variant

PEER = "peer"  # the role of a way into another process


def _at_once(problem: Transfer) -> str | None:
    """For what has all arrived when its call ends."""
    return None if problem.waits == "once" else "nobody's word is awaited within a process: --waits once"


def _through_memory(problem: Transfer) -> Work:
    """Copied in, and out again."""
    return Work(0.0, 2 * problem.bytes)


def _peer(name: str, work: Callable[[Transfer], Work] | None = None) -> Variant[Transfer]:
    return Variant(name, "cpu", "suite", partial(peers.prepare, name), work=work, roles=(PEER,))


VARIANTS: tuple[Variant[Transfer], ...] = (
    Variant("c", "cpu", "suite", partial(copies.own, False), accepts=_at_once),
    Variant("c-stream", "cpu", "suite", partial(copies.own, True), accepts=_at_once),
    Variant("memcpy", "cpu", "libc", copies.memcpy, accepts=_at_once),
    Variant("numpy", "cpu", "numpy", copies.numpy_copies, accepts=_at_once, python=True),
    Variant(
        "torch",
        "cpu",
        "torch",
        copies.torch_copies,
        accepts=_at_once,
        missing=torch_library.missing,
        kernel=torch_library.kernel,
        python=True,
    ),
    _peer("shared", _through_memory),
    _peer("vm"),
    _peer("pipe", _through_memory),
    _peer("tcp", _through_memory),
)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
