"""Processes of which some are at work at once: in order, on cores of their own, and none left behind."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import partial
from itertools import pairwise
from typing import ClassVar

import pytest

from kernels.devices.cpu import cores
from kernels.errors import SuiteError, Unavailable
from macro.processes import ahead as module
from macro.processes.ahead import Start, ahead
from macro.processes.process import Process


class Begun(Process):
    """Nothing runs; where it was begun, and how many were alive then."""

    alive: ClassVar[list[Begun]] = []

    def __init__(self, number: int) -> None:
        self.number, self.cores = number, os.sched_getaffinity(0)
        self.alive.append(self)
        self.beside = len(self.alive)

    def close(self) -> None:
        self.alive.remove(self)


@pytest.fixture(autouse=True)
def none_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    Begun.alive.clear()
    monkeypatch.setattr(module, "memory", lambda: 64e9)


def begin(count: int, missing: int = -1, alone: int = -1, **told: float) -> list[Start]:
    def start(number: int) -> Process:
        if number == missing:
            raise Unavailable("not here")
        return Begun(number)

    return [Start(partial(start, number), alone=number == alone, **told) for number in range(count)]  # type: ignore[arg-type]


def test_they_come_in_order_and_an_error_in_its_place() -> None:
    found = [x.number if isinstance(x, Begun) else str(x) for x in ahead(begin(5, missing=2))]
    assert found == [0, 1, "not here", 3, 4] and not Begun.alive


@pytest.mark.skipif(min(cores(), len(os.sched_getaffinity(0))) < 2, reason="one core: nothing is at work at once")
def test_some_are_at_work_at_once_on_cores_of_their_own() -> None:
    every = os.sched_getaffinity(0)
    found = [x for x in ahead(begin(5)) if isinstance(x, Begun)]
    assert max(x.beside for x in found) == min(module.AT_ONCE, cores(), len(every), 5)
    assert all(len(x.cores) == 1 for x in found)
    assert all(not a.cores & b.cores for a, b in pairwise(found))
    assert os.sched_getaffinity(0) == every


def test_with_threads_for_all_cores_or_little_memory_there_is_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    every = os.sched_getaffinity(0)
    monkeypatch.setattr(module, "AT_ONCE", 2)
    for found in ahead(begin(3, threads=len(every))):
        assert isinstance(found, Begun) and found.beside == 1 and found.cores == every
    monkeypatch.setattr(module, "memory", lambda: 2e9)
    assert [x.beside for x in ahead(begin(3, bytes=1e9)) if isinstance(x, Begun)] == [1, 1, 1]
    left = iter((4e9, 2e9, 4e9))  # what is free is looked at each time
    monkeypatch.setattr(module, "memory", lambda: next(left))
    assert [x.beside for x in ahead(begin(3, bytes=1e9)) if isinstance(x, Begun)] == [1, min(2, cores(), len(every)), 1]


def test_what_runs_alone_has_nobody_beside_it() -> None:
    every = os.sched_getaffinity(0)
    for i, found in enumerate(ahead(begin(5, alone=2))):
        assert isinstance(found, Begun) and found.number == i
        if i == 2:
            assert found.beside == 1 and found.cores == every and len(Begun.alive) == 1


def test_who_stops_reading_leaves_none_behind() -> None:
    def read() -> SuiteError | Process:
        with closing(ahead(begin(4))) as processes:
            for _ in processes:
                raise KeyboardInterrupt
        raise AssertionError

    with suppress(KeyboardInterrupt):
        read()
    assert not Begun.alive
