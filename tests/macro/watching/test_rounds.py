"""Rounds of several programs in turns, on a clock that only they move."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from macro.timing.entry import FEWEST
from macro.watching import rounds
from macro.watching.rounds import SPARE, Turn, in_turns


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


def test_samples_are_read_when_rounds_count_and_then_as_seldom_as_that_takes_long(clock: list[float]) -> None:
    turns, _ = taken(clock, 40, reading=2.0)
    read = [turn.seconds for turn in turns if turn.read]
    assert read[:2] == [FEWEST, FEWEST + 2 + SPARE * 2] and not turns[-1].read


def test_a_slow_reading_counts_in_the_time(clock: list[float]) -> None:
    turns, _ = taken(clock, 10, reading=5.0)
    assert len(turns) == FEWEST
