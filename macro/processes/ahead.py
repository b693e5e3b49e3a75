"""Processes that are read one after another, the next one at work meanwhile: where nobody reads their clocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kernels.devices.cpu import cores, memory
from kernels.errors import SuiteError
from macro.processes.process import Process

AT_ONCE = 8  # at most
ROOM = 0.8  # of the memory that is free, for all of them


@dataclass(frozen=True)
class Start:
    """What begins a process, how many threads it has, about how many bytes it takes; whether it runs `alone`."""

    begin: Callable[[], Process]
    threads: int = 1
    bytes: float = 0.0
    alone: bool = False


def ahead(starts: Sequence[Start]) -> Generator[Process | SuiteError, None, None]:
    """What each of these begins, in order, or why it did not; it is closed when the next one is asked for. Some are at
    work at once, each on cores of its own, where there are cores and memory."""
    every = sorted(os.sched_getaffinity(0))
    free = places(max((start.threads for start in starts), default=1))
    running = deque[tuple[Start, Process | SuiteError]]()
    try:
        for i, start in enumerate(starts):
            while running and (len(running) == len(free) or not _beside(start, [other for other, _ in running])):
                yield running[0][1]
                _end(running.popleft()[1])
            running.append((start, _begun(start.begin, every if start.alone else free[i % len(free)])))
        while running:
            yield running[0][1]
            _end(running.popleft()[1])
    finally:
        for _, process in running:
            _end(process)


def room_for(nbytes: float) -> int:
    """How many processes of so many bytes each memory has room for; one in any case."""
    return max(1, int(ROOM * memory() / max(1.0, nbytes)))


def places(threads: int) -> list[list[int]]:
    """The cores of each of those that are at work at once, of so many threads; all cores where that is one alone."""
    free = sorted(os.sched_getaffinity(0))
    count = max(1, min(AT_ONCE, len(free) // threads, cores() // threads))
    return [free[i * threads : (i + 1) * threads] for i in range(count)] if count > 1 else [free]


def _beside(start: Start, others: Sequence[Start]) -> bool:
    """Whether it may run with these, which may not have all their memory yet."""
    apart = any(other.alone for other in (start, *others))
    return not apart and sum(other.bytes for other in (start, *others)) <= ROOM * memory()


def _begun(begin: Callable[[], Process], place: Sequence[int]) -> Process | SuiteError:
    with on(place):
        try:
            return begin()
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
