"""Times of a GPU, good enough to decide a fact: warmed, many launches between two events, the least of some."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def microseconds(cp: Any, call: Callable[[], object], count: int, stream: Any = None, rounds: int = 3) -> float:
    """Of one call, `count` of them between two events on `stream`: device time and gaps, whichever is longer."""
    stream = stream or cp.cuda.Stream.null
    start, end = cp.cuda.Event(), cp.cuda.Event()
    call()
    best = float("inf")
    for _ in range(rounds):
        start.record(stream)
        for _ in range(count):
            call()
        end.record(stream)
        end.synchronize()
        best = min(best, float(cp.cuda.get_elapsed_time(start, end)) * 1e3 / count)
    return round(best, 3)


def replayed(cp: Any, call: Callable[[], object], count: int, stream: Any) -> float:
    """The same, the `count` calls captured once and replayed as a graph: no host between them."""
    stream.begin_capture()
    try:
        for _ in range(count):
            call()
    finally:
        graph = stream.end_capture()
    graph.upload(stream)
    return round(microseconds(cp, lambda: graph.launch(stream), 1, stream) / count, 3)


def warm(cp: Any, seconds: float = 0.5) -> None:
    """The clocks of an idle GPU rise while it works."""
    x = cp.ones((2048, 2048), cp.float32)
    over = time.perf_counter() + seconds
    while time.perf_counter() < over:
        x @ x
        cp.cuda.runtime.deviceSynchronize()
