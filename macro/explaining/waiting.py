"""Waiting in a step: time of threads that neither run nor are preempted, by the row open at that time.

Times come from the context switches that perf recorded. Preemption is caused by other processes, so it is no part of
the step. A thread without a switch in a round ran throughout the round if it has samples.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from macro.explaining.rows import WAITING, together
from macro.watching.perf import Switch
from macro.watching.recording import Watched

IDLE = "waiting"
FRAMEWORK = ["framework"]
Rows = tuple[str, ...]
Piece = tuple[int, int, Rows]


def waiting(watched: Watched, threads: int, group: Mapping[str, Rows]) -> dict[tuple[Rows, str], list[float]]:
    """Return thread seconds of waiting by rows and step; row `waiting` if no row, or several, are open."""
    cells: dict[tuple[Rows, str], list[float]] = {}
    spans = sorted((s for s in watched.spans if s["rows"]), key=lambda s: (s["start"], -s["end"]))
    switches = sorted(watched.switches, key=lambda switch: switch.time)
    moments, times = [x.time for x in switches], sorted((s.time, s.thread) for s in watched.samples)
    starts = [span["start"] for span in spans]
    for number in dict.fromkeys(watched.rounds):  # perf recorded its steps without a break
        steps = [step for step, x in enumerate(watched.rounds) if x == number]
        first, last = watched.steps[steps[0]][0], watched.steps[steps[-1]][1]
        in_round = switches[bisect.bisect_left(moments, first) : bisect.bisect_right(moments, last)]
        seen = times[bisect.bisect_left(times, (first, 0)) : bisect.bisect_left(times, (last + 1, 0))]
        idle = list(waits(in_round, {thread for _, thread in seen}, threads, first, last))
        ends = [b for _, b, _ in idle]
        for step in steps:
            start, end = watched.steps[step][:2]
            inside = spans[bisect.bisect_left(starts, start) : bisect.bisect_right(starts, end)]
            pieces = [(a, b, together(rows, group)) for a, b, rows in _open_rows(inside)]
            for a, b, count in idle[bisect.bisect_right(ends, start) :]:
                if a >= end:
                    break
                for rows, nanoseconds in _shared(max(a, start), min(b, end), pieces):
                    key = (rows, IDLE)
                    cells.setdefault(key, [0.0] * len(watched.steps))[step] += nanoseconds * count * 1e-9
    return cells


def _shared(start: int, end: int, pieces: Sequence[Piece]) -> Iterator[tuple[Rows, int]]:
    """Yield the rows open in an interval with their nanoseconds; the rest goes to `waiting`."""
    left = end - start
    for a, b, rows in pieces:
        within = min(b, end) - max(a, start)
        if within > 0:
            left -= within
            yield rows, within
    if left > 0:
        yield (WAITING,), left


def _open_rows(spans: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield intervals (start, end, rows) with open spans; with several threads, only where all rows agree."""
    by_thread: dict[int | None, list[dict[str, Any]]] = {}
    for span in spans:
        by_thread.setdefault(span.get("thread"), []).append(span)
    every = [piece for of_thread in by_thread.values() for piece in _pieces(of_thread)]
    if len(by_thread) == 1:
        yield from every
        return
    edges = [
        (when, change, tuple(rows)) for a, b, rows in every if rows != FRAMEWORK for when, change in ((a, 1), (b, -1))
    ]
    open_: Counter[Rows] = Counter()
    last = 0
    for when, change, rows in sorted(edges):
        if len(open_) == 1 and when > last:
            yield last, when, list(next(iter(open_)))
        open_[rows] += change
        if not open_[rows]:
            del open_[rows]
        last = when


def _pieces(spans: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield start, end and rows of the parts of one thread's spans that no inner span covers."""
    open_: list[dict[str, Any]] = []
    at = 0
    for span in spans:
        while open_ and open_[-1]["end"] <= span["start"]:
            done = open_.pop()
            yield at, done["end"], done["rows"]
            at = done["end"]
        if open_:
            yield at, span["start"], open_[-1]["rows"]
        open_.append(span)
        at = span["start"]
    while open_:
        done = open_.pop()
        yield at, max(at, done["end"]), done["rows"]
        at = max(at, done["end"])


def waits(
    switches: Sequence[Switch], sampled: set[int], threads: int, start: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """Yield intervals (from, to, count) in which `count` threads waited; `sampled`: threads seen running."""
    first: dict[int, str] = {}
    for switch in switches:
        first.setdefault(switch.thread, switch.state)
    active = {thread for thread, state in first.items() if state != "in"} | (sampled - set(first))
    at = start
    for switch in switches:
        if len(active) < threads and switch.time > at:
            yield at, switch.time, threads - len(active)
        at = switch.time
        if switch.state == "out":
            active.discard(switch.thread)
        else:
            active.add(switch.thread)  # the thread runs, or was preempted
    if len(active) < threads and end > at:
        yield at, end, threads - len(active)
