"""Which of several calls is the fastest on a GPU, by a short trial before the measurement."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kernels.errors import LaunchError
from kernels.launch import Launch

REPLAY, LONG = 20, 2e-3  # launches in a captured graph; fewer where they would take more seconds than that
WARM = 0.3  # seconds of launches before them: a card that was idle runs at its lowest clock
ROUNDS = 5  # in which each takes its turn, in an order of the round's own; the median counts

Call = Callable[[], object]


def fastest(device: Any, calls: Sequence[Call]) -> int:
    """The place of the fastest. A call that refuses to be launched is left out. Raises LaunchError where all refuse.

    Each is replayed as a graph behind a held stream: of calls that take microseconds, launched one by one, the gaps
    between launches would be compared.
    """
    import random  # here: a plan is listed without
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
    """Seconds of one launch of those that can be launched, by their places; the first one loaded its kernel."""
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
    """Seconds by the device's own marks, with no gap between the first one and the launch."""
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
