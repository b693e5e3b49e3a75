"""Copies within a process, and routes to another process.

Copies of a GPU (pinned, write-combined, registered, pageable; in both directions) are in cuda_variants.py.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kernels import build, team
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import torch as torch_library
from kernels.libs.torch import TORCH
from kernels.maths import INT64, POINTER, alone
from kernels.native import launch, structure
from kernels.ops.transfer.problem import SINGLE, Transfer
from kernels.problem import Array, Work
from kernels.provider import LIBC, NUMPY, SUITE
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

SOURCE = Path(__file__).with_name("copy.c")
SLICE = 64 << 10  # least floats of a thread's slice of a buffer
Argument = structure("pointer: x y lengths", "int64: buffers past")  # C struct `argument` of copy.c


class ByTeam(ctypes.Structure):
    """C struct `team_argument` of copy.c."""

    _fields_ = (*Argument._fields_, ("run", POINTER), ("members", INT64), ("least", INT64))


def lengths(problem: Transfer) -> Any:
    """Return the buffers' lengths as a C array."""
    return (INT64 * len(problem.lengths))(*problem.lengths)


def c_copy(past: bool, problem: Transfer, device: object, setting: Setting) -> Bind:
    """Prepare our copy; `past`: with streaming stores. Raises Unavailable without these or enough cores."""
    if past and not build.load(SOURCE).transfer_streams():
        raise Unavailable("this processor has no known non-temporal stores")
    each = lengths(problem)
    fields: dict[str, Any] = {"lengths": ctypes.addressof(each), "buffers": len(each), "past": past}
    if setting.threads == 1:
        function = build.address(SOURCE, "transfer_copy")
    else:
        members = team.gather(setting.threads)
        function = build.address(SOURCE, "transfer_by_team")
        fields |= {"run": members.run, "members": members.members, "least": SLICE}

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(**fields) if setting.threads == 1 else ByTeam(**fields)
        return launch(function, argument, "xy", buffers, keep=(each,))

    return bind


def memcpy(problem: Transfer, device: object, setting: Setting) -> Bind:
    """Prepare the C library's memcpy, one call for each buffer."""
    alone(setting)
    function, each = build.address(SOURCE, "transfer_memcpy"), lengths(problem)
    argument = partial(Argument, lengths=ctypes.addressof(each), buffers=len(each))
    return lambda buffers: launch(function, argument(), "xy", buffers, keep=(each,))


def parts(problem: Transfer, array: Array) -> list[Array]:
    """Return an operand split into its buffers."""
    return np.split(array.reshape(-1), np.cumsum(problem.lengths)[:-1])


def numpy_copies(problem: Transfer, device: object, setting: Setting) -> Bind:
    alone(setting)

    def bind(buffers: Sequence[Array]) -> Launch:
        pairs = list(zip(*(parts(problem, x) for x in reversed(buffers)), strict=True))

        def run() -> None:
            for target, source in pairs:
                np.copyto(target, source)

        return Launch(run)

    return bind


def torch_copies(problem: Transfer, device: object, setting: Setting) -> Bind:
    torch = torch_library.on_threads(setting.threads)

    def bind(buffers: Sequence[Array]) -> Launch:
        tensors = ([torch_library.tensor(torch, part) for part in parts(problem, x)] for x in reversed(buffers))
        pairs = list(zip(*tensors, strict=True))

        def run() -> None:
            for target, source in pairs:
                target.copy_(source)

        return Launch(run)

    return bind


PEER_SOURCE = Path(__file__).with_name("peer.c")
ROUTES = ("shared", "vm", "pipe", "tcp")  # in the order of peer.c
ToPeer = structure("pointer: x y peer")  # C struct `argument` of peer.c


@functools.cache
def _usable(route: str) -> bool:
    """Return whether another process returns a few bytes by the route; the trial runs once."""
    return bool(build.load(PEER_SOURCE).transfer_usable(ROUTES.index(route)))


class Peer:
    """A second process that receives a vector and returns it; the process ends with this object.

    `between` is the address of a C function f(vector, count of floats) that the process calls before
    it returns the vector; 0: no function. Raises Unavailable if the system forbids the route.
    """

    def __init__(self, route: str, lengths: Sequence[int], each: bool = False, along: bool = False, between: int = 0):
        library = build.load(PEER_SOURCE)
        library.transfer_open.restype = POINTER
        if not _usable(route):
            raise Unavailable(f"the system does not permit the route {route} between processes")
        of = (INT64 * len(lengths))(*lengths)
        how = INT64(len(lengths)), INT64(each), INT64(along), POINTER(between or None)
        self.place = library.transfer_open(ROUTES.index(route), of, *how)
        if self.place is None:
            raise Unavailable(f"no memory for a second process with {4 * sum(lengths)} more bytes")
        weakref.finalize(self, library.transfer_close, POINTER(self.place))


def to_peer(route: str, problem: Transfer, device: object, setting: Setting) -> Bind:
    """Prepare the exchange with another process. Raises Unavailable if the system forbids the route."""
    alone(setting)
    peer = Peer(route, problem.lengths, problem.waits == "each", problem.back == "along")
    function = build.address(PEER_SOURCE, "transfer_exchange")

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, ToPeer(peer=peer.place), "xy", buffers, uses=2, keep=(peer,))

    return bind


PEER, TEAM, PLAIN = "peer", "team", "plain"  # roles: into another process; by several threads; for all
BESIDE = "beside"  # of a GPU: a copy, products, and both at once
AWAITED = "awaited"  # … and copies whose caller waits for their end


def at_once(problem: Transfer) -> str | None:
    """Return why a copy within one process cannot run `problem`, or None."""
    if problem.back != "after":
        return "a copy within a process sends nothing back: use --back after"
    return None if problem.waits == "once" else "a copy within a process awaits no reply: use --waits once"


def by_device(problem: Transfer) -> str | None:
    """Return why a variant that does not copy over a GPU's link cannot run `problem`, or None."""
    return None if problem.clock == "device" else "only copies over a GPU's link support --clock caller: --clock device"


def within(problem: Transfer) -> str | None:
    """Return why a copy within a processor's or a GPU's memory cannot run `problem`, or None."""
    return at_once(problem) or by_device(problem)


def _along(problem: Transfer) -> str | None:
    """Return why the route that returns chunks while others are sent refuses `problem`, or None."""
    if problem.back == "along" and (problem.buffers != SINGLE or problem.waits == "each"):
        return "it sends back chunk by chunk: --buffers one --waits once, or --back after"
    return by_device(problem)


def _after(problem: Transfer) -> str | None:
    """Return why a route that returns data only after all is received cannot run `problem`, or None."""
    if problem.back != "after":
        return "only shared memory supports both directions at once: --back after"
    return by_device(problem)


def _through_memory(problem: Transfer) -> Work:
    """Return the work of a copy into intermediate memory and a copy out of it."""
    return Work(0.0, 2 * problem.bytes)


def _peer(name: str, work: Callable[[Transfer], Work] | None = None) -> Variant[Transfer]:
    accepts = _along if name == "shared" else _after
    return row(SUITE, name, partial(to_peer, name), accepts=accepts, work=work, roles=(PEER,))


VARIANTS: tuple[Variant[Transfer], ...] = (
    row(SUITE, "c", partial(c_copy, False), accepts=within, roles=(DEFAULT, TEAM)),
    row(SUITE, "c-stream", partial(c_copy, True), accepts=within, roles=(DEFAULT, TEAM)),
    row(LIBC, "memcpy", memcpy, accepts=within, roles=(DEFAULT, PLAIN)),
    row(NUMPY, "numpy", numpy_copies, accepts=within),
    row(TORCH, "torch", torch_copies, accepts=within, roles=(DEFAULT, TEAM)),
    _peer("shared", _through_memory),
    _peer("vm"),
    _peer("pipe", _through_memory),
    _peer("tcp", _through_memory),
)
