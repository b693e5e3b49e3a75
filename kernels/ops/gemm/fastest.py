"""Choice of the fastest of several calls on a GPU, by a short trial before the measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kernels.errors import LaunchError
from kernels.launch import Launch

REPLAY, LONG = 20, 2e-3  # most launches in a captured graph; most seconds of the fastest call's graph
WARM = 0.3  # seconds of warm-up launches, because an idle card runs at its lowest clock
ROUNDS = 5  # each launches every graph once, in shuffled order; a graph's time is its median

Call = Callable[[], object]


def fastest(device: Any, calls: Sequence[Call]) -> int:
    """Return the index of the fastest call, leaving out those that fail to launch.

    Each call is replayed as a graph on a held stream, because timing microsecond calls launched singly would compare
    launch gaps. Raises LaunchError if all fail.
    """
    import random  # here, since listing a plan does without
    import statistics

    if len(calls) == 1:
        return 0
    seconds = _launched(device, calls)
    count = max(1, min(REPLAY, int(LONG / max(min(seconds.values()), 1e-9))))
    graphs = {place: device.repeat(Launch(calls[place], capturable=True), count) for place in seconds}
    _warm(device, list(graphs.values()))
    taken: dict[int, list[float]] = {place: [] for place in graphs}
    order, shuffled = list(graphs), random.Random(1)
    for _ in range(ROUNDS):
        shuffled.shuffle(order)
        for place in order:
            taken[place].append(held(device, graphs[place]))
    return min(taken, key=lambda place: statistics.median(taken[place]))


def _launched(device: Any, calls: Sequence[Call]) -> dict[int, float]:
    """Return one launch's seconds, after an untimed launch, of each call that does not fail, by index."""
    seconds: dict[int, float] = {}
    refusal = None
    for place, call in enumerate(calls):
        try:
            call()
            device.sync()
            seconds[place] = held(device, call)
        except LaunchError as error:
            refusal = error
    if refusal and not seconds:
        raise refusal
    return seconds


def _warm(device: Any, graphs: Sequence[Call]) -> None:
    end = time.perf_counter() + WARM
    while True:
        for graph in graphs:
            graph()
        device.sync()
        if time.perf_counter() >= end:
            return


def held(device: Any, run: Call) -> float:
    """Return the device's seconds for `run`, enqueued on a held stream so that no launch gap counts."""
    device.hold()
    try:
        start = device.mark()
        run()
        end = device.mark()
    finally:
        device.release()
    device.sync()
    seconds: float = device.between(start, end).wall
    return seconds
