"""Kernel calls bound to their operands and ready to be timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """The C entry point of a launch: `function(argument)`, a C function and a structure.

    A compiled loop calls it without Python, and moves the launch to other operands by writing their addresses."""

    function: int
    argument: ctypes.Structure
    slots: tuple[int, ...]  # byte offsets of the operands' addresses in the structure, in the problem's order
    keep: tuple[object, ...] = ()  # objects whose memory the structure points to
    single: tuple[int, int] | None = None  # lighter call for warming: function, and its argument's offset in `argument`


@dataclass(frozen=True, eq=False, slots=True)
class Launch:
    """One bound call that enqueues its kernels once and does nothing else."""

    call: Callable[[], object]
    uses: int = 1  # uses that one call serves
    workspace: int = 0  # bytes
    entry: Entry | None = None
    capturable: bool = False  # on CUDA, may be recorded into a graph
    kernels: int = 0  # most kernels that one call enqueues on a GPU's stream; 0: unknown
    kernel: tuple[str | None, str | None] | None = None  # replaces Variant.kernel() if it depends on the problem


def held(call: Callable[[], object], keep: object, **fields: Any) -> Launch:
    """Return a launch of `call` that keeps alive `keep`, whose memory it uses; `fields` are Launch's."""

    def run(keep: object = keep) -> None:
        call()

    return Launch(run, **fields)


def in_turn(steps: Sequence[Callable[[], object]], keep: object) -> Callable[[], None]:
    """Return a function that calls all `steps` in order and keeps alive `keep`, whose memory they use."""

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
    """Return a launch that makes `calls` in order, each of which enqueues at most `each` kernels.

    `keep` holds the memory that the calls use; the other parameters are Launch's fields."""
    run = in_turn(calls, keep)
    return Launch(run, workspace=workspace, capturable=capturable, kernels=each * len(calls), kernel=kernel)


Bind: TypeAlias = "Callable[[Sequence[Any]], Launch]"
