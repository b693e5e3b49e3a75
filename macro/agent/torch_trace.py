"""Spans of a PyTorch program by PyTorch's profiler.

Spans have no thread: the profiler reports only the calling thread, by an id that is not the system's, and the threads
of a pool work for a span too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import recorder  # beside this file
import torch_rows

MARKS = 5  # annotations for calibrating the clock; the one that began fastest counts
MARK = 400000  # nanoseconds of an annotation


def profiled(run: Callable[[], object]) -> Any:
    """Profile `run`; return a mark and its events by start, the mark's start, and run's start and end."""
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        marks = []
        for _ in range(MARKS):
            before = recorder.now()
            with torch.profiler.record_function(recorder.CALIBRATE):
                entered = recorder.now()
                while recorder.now() < entered + MARK:
                    pass
            marks.append((entered - before, before))
        began = recorder.now()
        run()
        ended = recorder.now()
    events = [
        {
            "name": event.name(),
            "start": event.start_ns(),
            "end": event.end_ns(),
            "sequence": event.sequence_nr(),
            "shapes": event.shapes(),
        }
        for event in profiler.profiler.kineto_results.events()
    ]
    events.sort(key=lambda event: (event["start"], -event["end"]))
    least = min(marks)
    mark = [event for event in events if event["name"] == recorder.CALIBRATE][marks.index(least)]
    rest = [event for event in events if event["name"] != recorder.CALIBRATE]
    return [mark, *rest], least[1], (began, ended)


def nested(events: Any) -> list[dict[str, Any]]:
    """Return each event with `within`, the index of the enclosing event, or None."""
    placed, open_ones = list[dict[str, Any]](), list[int]()
    for i, event in enumerate(events):
        while open_ones and events[open_ones[-1]]["end"] <= event["start"]:
            open_ones.pop()
        placed.append(dict(event, within=open_ones[-1] if open_ones else None))
        open_ones.append(i)
    return placed


def spans(run: Callable[[], object], align: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """Run `run` and return its spans, with rows from `align`; time outside operations is the framework's."""
    events, moment, (began, ended) = profiled(run)
    mark, events = events[0], nested(events[1:])
    aligned = align(events)
    inner = []
    for event, (rows, column) in zip(events, aligned):
        span = {"start": event["start"], "end": event["end"], "name": event["name"], "rows": rows, "column": column}
        share = torch_rows.product(event["name"], rows)
        inner.append(dict(span, product=share) if share else span)
    outer = {"start": began, "end": ended, "name": "run", "rows": torch_rows.FRAMEWORK, "column": None}
    return [outer, *recorder.calibrated([mark, *inner], moment)]
