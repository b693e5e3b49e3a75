"""Parsed replies of a script's process to a request for a block of steps.

Each step in a reply is (start, end, CPU time, time in the operating system, page faults), times in nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from macro.watching.load import Load
from macro.watching.recording import Called, Event
from macro.watching.rounds import Block


def events(reply: Mapping[str, Any]) -> list[Event]:
    """Return the traced events of a reply; empty if the block was not traced."""
    traced = reply["traced"]
    if not traced:
        return []
    columns, names = traced["columns"], traced["names"]
    order = ("start", "end", "thread", "sequence", "lane", "forward")
    rows = zip(columns["name"], *(columns[name] for name in order), strict=True)
    return [Event(names[name], *rest) for name, *rest in rows]


def called(reply: Mapping[str, Any]) -> list[Called]:
    """Return the operations of a block's last step, with their shapes."""
    start, end = reply["steps"][-1][:2]
    traced = reply["traced"]
    pairs = zip(events(reply), traced["shapes"], strict=True)
    return [Called(event, *traced["inputs"][i]) for event, i in pairs if start <= event.start <= end]


def block(reply: Mapping[str, Any], before: float | None, after: float | None, seconds: float = 0.0) -> Block:
    """Return the reply as a Block. `before`, `after`: CPU seconds of others, None if not counted, `seconds` apart."""
    steps = reply["steps"]
    blocked = reply["blocked"] / len(steps)
    load = []
    if reply["load"] and before is not None and after is not None:
        ran, queued = reply["load"]
        load.append(Load(ran * 1e-9, queued * 1e-9, after - before, seconds))
    return Block(
        [(start, end, cpu, blocked) for start, end, cpu, *_ in steps],
        [faults for *_, faults in steps],
        sum(inside for _, _, _, inside, _ in steps) * 1e-9 / len(steps),
        reply,
        load=load,
    )
