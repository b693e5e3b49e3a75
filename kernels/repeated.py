"""A variant whose launch makes several calls of another variant, an exact multiple of that work."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Bind, Entry, Launch
from kernels.native import CALL
from kernels.problem import Array, Problem, Work
from kernels.variant import Variant

SOURCE = Path(__file__).with_name("repeated.c")


def repeated(inner: Variant[Any], count: int, name: str) -> Variant[Any]:
    """Return a variant that makes `count` calls of `inner` as one use; `inner` must have a C entry."""

    def prepare(problem: Any, device: Any, setting: Any) -> Bind:
        bound = inner.prepare(problem, device, setting)
        function = build.address(SOURCE, "call_repeatedly")

        def bind(buffers: Sequence[Array]) -> Launch:
            launch = bound(buffers)
            if launch.entry is None:
                raise Unavailable(f"{inner.name} has no C entry point to repeat")
            return _wrap(launch, launch.entry, function, count)

        return bind

    def work(problem: Problem) -> Work:
        once = inner.executed(problem)
        return Work(count * once.flops, count * once.bytes)

    return replace(inner, name=name, prepare=prepare, work=work, times=count * inner.times)


def _wrap(launch: Launch, entry: Entry, function: int, count: int) -> Launch:
    class Repetition(ctypes.Structure):
        _fields_ = (("function", ctypes.c_void_p), ("count", ctypes.c_int64), ("argument", type(entry.argument)))

    repetition = Repetition(entry.function, count, entry.argument)
    head = Repetition.argument.offset
    call, place = CALL(function), ctypes.addressof(repetition)
    slots = tuple(head + slot for slot in entry.slots)

    def run(keep: object = (repetition, entry.keep)) -> None:
        call(place)

    single = entry.function, head
    return replace(launch, call=run, entry=Entry(function, repetition, slots, (entry.keep,), single))
