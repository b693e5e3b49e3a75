"""Rounds of several programs in turns, and watched steps in which the process grew."""

from __future__ import annotations

import random
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from macro.frameworks import find
from macro.processes.job import Setting
from macro.timing.entry import FEWEST, Entry, Plan
from macro.watching import rounds
from macro.watching.rounds import SPARE, Turn, in_turns
from macro.watching.watch import NetworkObserver
from tests.macro.watched import NET

STEP = 200_000_000  # nanoseconds: longer than a block
PLAIN = 100  # page faults of a plain step
GROWS = 50_000


class Process:
    """Tells of each traced step the next of `faults`, and PLAIN from then on; a plain one had `grew` once."""

    def __init__(self, *faults: int, grew: int = PLAIN) -> None:
        self.faults, self.now, self.traced, self.plain = list(faults), 0, 0, [PLAIN, PLAIN, grew]

    def ask(self, patience: float, kind: str, **request: Any) -> dict[str, Any]:
        if kind == "replayed":
            return {"calls": [], "seconds": []}
        count = request["count"]
        if kind == "steps":
            faults = [self.plain.pop(0) if self.plain else PLAIN for _ in range(count)]
            times = {name: [STEP] * count for name in ("wall_ns", "cpu_ns")}
            return {**times, "blocked_ns": [0] * count, "system_ns": [0] * count, "faults": faults}
        steps = [[self.now + i * STEP, self.now + (i + 1) * STEP, STEP, 0] for i in range(count)]
        self.now, self.traced = self.now + count * STEP, self.traced + 1
        faults = [self.faults.pop(0) if self.faults else PLAIN for _ in range(count)]
        inside = [1000 * self.traced] * count
        return {"steps": steps, "faults": faults, "system_ns": inside, "spans": [], "traces": True}


def looked(*faults: int, grew: int = PLAIN) -> tuple[NetworkObserver, Process]:
    """After a round of a process that was started."""
    process = Process(*faults, grew=grew)
    script: Any = process
    look = NetworkObserver(Plan(NET, NET.batch, "step", 1.0, 1), Entry(find("numpy"), Setting()), script)
    look.round(1, Random(1))
    return look, process


@pytest.mark.parametrize("grown", [0, 1, 2])
def test_a_step_in_which_the_process_grew_is_taken_again(grown: int) -> None:
    look, process = looked(*[GROWS] * grown)
    (seen,) = look.unread
    assert (seen.retaken, process.traced) == (grown, grown + 1)
    assert seen.steps == [(grown * STEP, (grown + 1) * STEP, STEP * 1e-9, 0.0)]
    assert seen.levels["P3"] == [STEP * 1e-9]
    assert seen.watched_system == [pytest.approx(1e-6 * (grown + 1))]  # of the steps that are kept


def test_one_that_always_grows_stays_as_it_is() -> None:
    look, process = looked(*[GROWS] * 9)
    (seen,) = look.unread
    assert (seen.retaken, process.traced, len(seen.steps)) == (NetworkObserver.tries, NetworkObserver.tries, 1)


def test_a_plain_step_that_grew_excuses_none() -> None:
    look, process = looked(GROWS, grew=2 * GROWS)
    assert (look.unread[0].retaken, process.traced) == (1, 2)


def test_faults_that_plain_steps_have_too_are_no_growth() -> None:
    look, _ = looked(PLAIN * 2)
    assert look.unread[0].retaken == 0


class Look:
    """Takes so many seconds a round; who was asked stands in `asked`."""

    def __init__(self, name: str, asked: list[tuple[str, int]], clock: list[float], took: float) -> None:
        self.name, self.asked, self.clock, self.took = name, asked, clock, took

    def round(self, number: int, order: random.Random) -> None:
        self.asked.append((self.name, number))
        self.clock[0] += self.took


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(rounds.time, "monotonic", lambda: now[0])
    return now


def taken(clock: list[float], seconds: float, reading: float = 0.0) -> tuple[list[Turn], Sequence[tuple[str, int]]]:
    """Rounds of two, of a second together; what perf saw takes `reading` to be read."""
    asked: list[tuple[str, int]] = []
    turns = []
    for turn in in_turns([Look(x, asked, clock, 0.5) for x in "ab"], seconds, random.Random(1)):
        turns.append(turn)
        clock[0] += reading * turn.read
    return turns, asked


def test_each_round_has_each_program_once_in_an_order_of_its_own(clock: list[float]) -> None:
    _, asked = taken(clock, 20)
    pairs = [asked[i : i + 2] for i in range(0, len(asked), 2)]
    assert all(sorted(pair) == [("a", i), ("b", i)] for i, pair in enumerate(pairs))
    assert {pair[0][0] for pair in pairs} == {"a", "b"}


@pytest.mark.parametrize(("seconds", "count"), [(0.0, FEWEST), (FEWEST + 4.0, FEWEST + 4)])
def test_rounds_end_with_the_time_but_not_before_there_are_enough(
    seconds: float, count: int, clock: list[float]
) -> None:
    turns, _ = taken(clock, seconds)
    assert [turn.number for turn in turns] == list(range(1, count + 1)) and turns[-1].seconds == count


def test_samples_are_read_early_where_that_is_asked(clock: list[float]) -> None:
    turns = list(in_turns([Look("a", [], clock, 1.0)], 20.0, random.Random(1), early=2))  # type: ignore[list-item]
    assert next(turn.number for turn in turns if turn.read) == 2 and len(turns) == 20


def test_samples_are_read_when_rounds_count_and_then_as_seldom_as_that_takes_long(clock: list[float]) -> None:
    turns, _ = taken(clock, 40, reading=2.0)
    read = [turn.seconds for turn in turns if turn.read]
    assert read[:2] == [FEWEST, FEWEST + 2 + SPARE * 2] and not turns[-1].read


def test_a_slow_reading_counts_in_the_time(clock: list[float]) -> None:
    turns, _ = taken(clock, 10, reading=5.0)
    assert len(turns) == FEWEST
