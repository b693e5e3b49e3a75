"""One call of a kernel, bound to its operands and ready to be timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Entry:
    """The compiled way into a launch: `function(argument)`, a C function and a structure.

    A compiled loop moves a launch through it without Python."""

    function: int
    argument: ctypes.Structure
    slots: tuple[int, ...]  # byte offsets of the operands' addresses in the structure, in the problem's order
    keep: tuple[object, ...] = ()
    single: tuple[int, int] | None = None  # function, and offset of its argument, of one call of a launch of several


@dataclass(frozen=True, slots=True)
class Launch:
    """One bound call that enqueues its kernels once and does nothing else."""

    call: Callable[[], object]
    uses: int = 1  # uses that one call serves
    workspace: int = 0  # bytes
    entry: Entry | None = None
    capturable: bool = False  # on CUDA, may be recorded into a graph
    kernels: int = 0  # most that one call enqueues on a GPU's stream; 0: not known
    kernel: tuple[str | None, str | None] | None = None  # as a Variant's, where it depends on the problem


def held(call: Callable[[], object], keep: object, **fields: Any) -> Launch:
    """Return a launch of `call` that keeps the objects whose memory it uses; `fields` are Launch's."""

    def run(keep: object = keep) -> None:
        call()

    return Launch(run, **fields)


def in_turn(steps: Sequence[Callable[[], object]], keep: object) -> Callable[[], None]:
    """Return one call that makes all `steps` in order; `keep` holds the memory whose addresses they use."""

    def call(keep: object = keep) -> None:
        for step in steps:
            step()

    return call


def in_order(
    calls: Sequence[Callable[[], object]],
    keep: object,
    each: int,
    workspace: int = 0,
    capturable: bool = False,
    kernel: tuple[str | None, str | None] | None = None,
) -> Launch:
    """Return a launch of several calls in order; `each`: most kernels of one call.

    `keep` holds what the calls need; the other parameters are Launch's fields."""
    run = in_turn(calls, keep)
    return Launch(run, workspace=workspace, capturable=capturable, kernels=each * len(calls), kernel=kernel)


Bind: TypeAlias = "Callable[[Sequence[Any]], Launch]"
