"""One call of a kernel, ready to be timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Entry:
    """The compiled way into a launch: `function(argument)`, a C function and a structure.

    `slots` are the byte offsets in the structure at which the operands' addresses stand, in the
    problem's order, so that a compiled loop can move a launch without Python. `single`: the function and
    the offset of its argument that make one call, where a launch is several.
    """

    function: int
    argument: ctypes.Structure
    slots: tuple[int, ...]
    keep: tuple[object, ...] = ()
    single: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One bound call. `call` enqueues once and does nothing else; one call serves `uses` uses. `capturable`:
    on CUDA, it may be recorded into a graph. `kernels`: how many one call enqueues on a GPU's stream, at most; 0:
    not known. `kernel`: as of a Variant, where what its library runs depends on the problem."""

    call: Callable[[], object]
    uses: int = 1
    workspace: int = 0
    entry: Entry | None = None
    capturable: bool = False
    kernels: int = 0
    kernel: tuple[str | None, str | None] | None = None


def in_order(
    calls: Sequence[Callable[[], object]],
    keep: object,
    each: int,
    workspace: int = 0,
    capturable: bool = False,
    kernel: tuple[str | None, str | None] | None = None,
) -> Launch:
    """Calls one behind the other, in whose time what they need is kept; `each`: kernels of a call, at most; the others
    as a Launch has them."""

    def run(keep: object = keep) -> None:
        for call in calls:
            call()

    return Launch(run, workspace=workspace, capturable=capturable, kernels=each * len(calls), kernel=kernel)


Bind: TypeAlias = "Callable[[Sequence[Any]], Launch]"
