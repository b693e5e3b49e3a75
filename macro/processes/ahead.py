"""Processes that are read one after another, the next one at work meanwhile: where nobody reads their clocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress

from kernels.devices.cpu import cores, memory
from kernels.errors import SuiteError
from macro.processes.process import Process

AT_ONCE = 2  # each has its memory
ROOM = 8e9  # bytes that are free, for more than one


def ahead(begin: Sequence[Callable[[], Process]], threads: int) -> Generator[Process | SuiteError, None, None]:
    """What each of these begins, in order, or why it did not; it is closed when the next one is asked for. Some are at
    work at once, each on as many cores of its own as it has `threads`, where there are so many."""
    free = sorted(os.sched_getaffinity(0))
    count = max(1, min(AT_ONCE, len(free) // threads, cores() // threads)) if memory() >= ROOM else 1
    places = [free[i * threads : (i + 1) * threads] for i in range(count)] if count > 1 else [free]
    running = deque[Process | SuiteError]()
    try:
        for i, start in enumerate(begin):
            running.append(_begun(start, places[i % count]))
            if len(running) == count:
                yield running[0]
                _end(running.popleft())
        while running:
            yield running[0]
            _end(running.popleft())
    finally:
        for process in running:
            _end(process)


def _begun(start: Callable[[], Process], place: Sequence[int]) -> Process | SuiteError:
    with on(place):
        try:
            return start()
        except SuiteError as error:
            return error


def _end(process: Process | SuiteError) -> None:
    if isinstance(process, Process):
        process.close()


@contextmanager
def on(place: Sequence[int]) -> Iterator[None]:
    """What this thread starts meanwhile runs on these cores; where the system has taken one away, on what there is."""
    every = os.sched_getaffinity(0)
    try:
        with suppress(OSError):
            os.sched_setaffinity(0, place)
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, every)
