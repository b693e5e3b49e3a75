"""Untimed child processes that run ahead of their reader, as many at once as cores and memory allow."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kernels.devices.cpu import cores, memory
from kernels.errors import SuiteError
from macro.processes.process import Process

AT_ONCE = 8  # processes at a time, at most
ROOM = 0.8  # share of the free memory that all processes may take


@dataclass(frozen=True)
class Start:
    """A process to start, and the resources that it needs."""

    begin: Callable[[], Process]
    threads: int = 1
    bytes: float = 0.0  # memory that it needs, estimated
    alone: bool = False  # whether no other process may run meanwhile


def ahead(starts: Sequence[Start]) -> Generator[Process | SuiteError, None, None]:
    """Start processes ahead, yield each in order, or its error, and close it when the next is requested."""
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
    """Return the number of processes of `nbytes` each that fit in memory, at least one."""
    return max(1, int(ROOM * memory() / max(1.0, nbytes)))


def places(threads: int) -> list[list[int]]:
    """Return the cores of each concurrent process, or all cores if only one process runs at a time."""
    free = sorted(os.sched_getaffinity(0))
    count = max(1, min(AT_ONCE, len(free) // threads, cores() // threads))
    return [free[i * threads : (i + 1) * threads] for i in range(count)] if count > 1 else [free]


def _beside(start: Start, others: Sequence[Start]) -> bool:
    """Return whether a process may run beside the others; counts memory that they have yet to allocate."""
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
    """Pin this thread and the processes it starts to these cores; do nothing if they are not available."""
    every = os.sched_getaffinity(0)
    try:
        with suppress(OSError):
            os.sched_setaffinity(0, place)
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, every)
