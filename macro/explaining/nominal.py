"""Nominal work of one step's operations, by row and kind, from their recorded shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from macro.explaining import modules
from macro.explaining.attribute import Key
from macro.explaining.operation_call import Amount, Call
from macro.explaining.operation_work import alone, amount, precision
from macro.explaining.rows import OUTSIDE
from macro.watching.recording import Called


@dataclass
class Work:
    """Work of one step's operations, by row and kind, from their shapes, and the largest call of each."""

    flops: dict[Key, float] = field(default_factory=dict)
    bytes: dict[Key, float] = field(default_factory=dict)
    calls: Counter[Key] = field(default_factory=Counter)
    largest: dict[Key, tuple[float, Call]] = field(default_factory=dict)
    typed: dict[Key, dict[str, float]] = field(default_factory=dict)  # FLOP by the type that they are computed in
    far: dict[Key, float] = field(default_factory=dict)  # bytes of calls that no cache holds


def work_of(called: Sequence[Called], cache: int = 0) -> Work:
    """Sum the work of one step; of nested calls that have an amount, the outermost count."""
    work, inside = Work(), dict[int, int]()
    by_event = {id(x.event): x for x in called}
    for event, where, column in modules.placed([x.event for x in called]):
        key = ((where.row,) if where else (OUTSIDE,), column or "")
        if column in (None, "dispatch", "data") or event.start < inside.get(event.thread, 0):
            continue
        recorded = by_event[id(event)]
        call = Call(event.name, recorded.shapes, recorded.types, recorded.arguments, recorded.strides)
        done = amount(call)
        if done is None:
            continue
        inside[event.thread] = event.end
        _add(work, key, call, done, cache)
    return work


def _add(work: Work, key: Key, call: Call, done: Amount, cache: int) -> None:
    work.calls[key] += 1
    work.flops[key] = work.flops.get(key, 0.0) + done.flops
    work.bytes[key] = work.bytes.get(key, 0.0) + done.bytes
    if done.flops:
        typed, name = work.typed.setdefault(key, {}), precision(call)
        typed[name] = typed.get(name, 0.0) + done.flops
    size = max(done.flops, done.bytes)
    if size > work.largest.get(key, (0.0, None))[0]:
        work.largest[key] = size, call
    if done.bytes > cache:
        work.far[key] = work.far.get(key, 0.0) + done.bytes


def alone_command(call: Call) -> str:
    """Return the command that measures a call by itself; empty where there is none."""
    again = alone(call)
    return command(*again) if again else ""


def command(benchmark: str, options: Mapping[str, Any]) -> str:
    """Format a benchmark's command line."""
    words = [f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}" for name, value in options.items()]
    return " ".join([f"python -m micro.{benchmark}", *words])
