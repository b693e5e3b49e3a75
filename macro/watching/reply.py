"""Replies of a script's process to a block of steps.

A step in them: start, end, processor time, seconds in the operating system, page faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from macro.watching.load import Load
from macro.watching.recording import Called, Event


def events(reply: Mapping[str, Any]) -> list[Event]:
    """Return the traced events."""
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
    pairs = zip(events(reply), reply["traced"]["shapes"], strict=True)
    return [Called(event, *inputs) for event, inputs in pairs if start <= event.start <= end]


def system(reply: Mapping[str, Any]) -> float:
    """Return the seconds of a step in the operating system."""
    return float(sum(inside for _, _, _, inside, _ in reply["steps"])) * 1e-9 / len(reply["steps"])


def load(reply: Mapping[str, Any], before: float | None, after: float | None) -> list[Load]:
    """Return who had the cores; nothing where the system does not count it. Seconds of others, before and after."""
    if not reply["load"] or before is None or after is None:
        return []
    ran, queued = reply["load"]
    return [Load(ran * 1e-9, queued * 1e-9, after - before)]


def faults(reply: Mapping[str, Any]) -> list[int]:
    """Return the page faults of each step."""
    return [count for *_, count in reply["steps"]]


def seconds(reply: Mapping[str, Any], one_thread: bool) -> float:
    """Return the seconds of a step. One thread: others' work beside it does not count, its own waits do."""
    if one_thread:
        taken = sum(cpu for _, _, cpu, *_ in reply["steps"]) + reply["blocked"]
    else:
        taken = sum(end - start for start, end, *_ in reply["steps"])
    return float(taken) * 1e-9 / len(reply["steps"])
