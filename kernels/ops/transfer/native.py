"""Copies on a processor by our own loops, memcpy, NumPy and PyTorch, and to another process."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build, team
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.libs import torch as torch_library
from kernels.maths import INT64, POINTER, alone
from kernels.native import launch, structure
from kernels.ops.transfer.problem import Transfer
from kernels.setting import Setting

if TYPE_CHECKING:
    from kernels.problem import Array


SOURCE = Path(__file__).with_name("copy.c")
SLICE = 64 << 10  # floats of a member's slice, where a buffer has more for each
Argument = structure("pointer: x y lengths", "int64: buffers past")  # C struct `argument` of copy.c


class ByTeam(ctypes.Structure):
    """C struct `team_argument` of copy.c."""

    _fields_ = (*Argument._fields_, ("run", POINTER), ("members", INT64), ("least", INT64))


def lengths(problem: Transfer) -> Any:
    """Return the buffers' lengths as a C array."""
    return (INT64 * len(problem.lengths))(*problem.lengths)


def c_copy(past: bool, problem: Transfer, device: object, setting: Setting) -> Bind:
    """Prepare our copy, with streaming stores if `past`. Raises Unavailable without them, or enough cores."""
    if past and not build.load(SOURCE).transfer_streams():
        raise Unavailable("this processor has no stores past the caches that are known here")
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
    """Return the buffers of an operand."""
    import numpy as np

    return np.split(array.reshape(-1), np.cumsum(problem.lengths)[:-1])


def numpy_copies(problem: Transfer, device: object, setting: Setting) -> Bind:
    import numpy as np

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


PEER = Path(__file__).with_name("peer.c")
ROUTES = ("shared", "vm", "pipe", "tcp")  # in the order of peer.c
ToPeer = structure("pointer: x y peer")  # C struct `argument` of peer.c


@functools.cache
def _usable(route: str) -> bool:
    """Try once whether another process returns a few bytes by the route."""
    return bool(build.load(PEER).transfer_usable(ROUTES.index(route)))


class Peer:
    """A second process that receives a vector and returns it; it ends with this object.

    `between` is the address of a C function, of the vector's place and count of floats, that the process runs before
    it returns the vector; 0 is none. Raises Unavailable where the system forbids the route.
    """

    def __init__(self, route: str, lengths: Sequence[int], each: bool = False, along: bool = False, between: int = 0):
        library = build.load(PEER)
        library.transfer_open.restype = POINTER
        if not _usable(route):
            raise Unavailable(f"the system lets no process be reached by the route {route} here")
        of = (INT64 * len(lengths))(*lengths)
        how = INT64(len(lengths)), INT64(each), INT64(along), POINTER(between or None)
        self.place = library.transfer_open(ROUTES.index(route), of, *how)
        if self.place is None:
            raise Unavailable(f"no memory for a second process with {4 * sum(lengths)} bytes of its own")
        weakref.finalize(self, library.transfer_close, POINTER(self.place))


def prepare(route: str, problem: Transfer, device: object, setting: Setting) -> Bind:
    """Prepare the exchange with another process. Raises Unavailable where the system forbids the route."""
    alone(setting)
    peer = Peer(route, problem.lengths, problem.waits == "each", problem.back == "along")
    function = build.address(PEER, "transfer_exchange")

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, ToPeer(peer=peer.place), "xy", buffers, uses=2, keep=(peer,))

    return bind
