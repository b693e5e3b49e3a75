"""There and back between this process and another one, which keeps what it gets in memory of its own: a launch is two
transfers."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.maths import INT64, POINTER, alone
from kernels.native import launch
from kernels.ops.transfer.problem import Transfer
from kernels.setting import Setting

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("peer.c")
ROUTES = ("shared", "vm", "pipe", "tcp")  # in the order of peer.c


class Argument(ctypes.Structure):
    """`argument` of peer.c."""

    _fields_ = (*((name, POINTER) for name in ("x", "y", "peer")),)


@functools.cache
def _usable(route: str) -> bool:
    """Whether a few bytes come back by it; a process is tried for it once."""
    return bool(build.load(SOURCE).transfer_usable(ROUTES.index(route)))


class Peer:
    """The other process; it ends with this. `between`: address of what it does with its memory before it sends it back,
    a C function of the place and the count of floats; 0: nothing. Raises Unavailable where the system forbids it."""

    def __init__(self, route: str, lengths: Sequence[int], each: bool = False, along: bool = False, between: int = 0):
        library = build.load(SOURCE)
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
    """Raises Unavailable where the system forbids it."""
    alone(setting)
    peer = Peer(route, problem.lengths, problem.waits == "each", problem.back == "along")
    function = build.address(SOURCE, "transfer_exchange")

    def bind(buffers: Sequence[Array]) -> Launch:
        return launch(function, Argument(peer=peer.place), "xy", buffers, uses=2, keep=(peer,))

    return bind
