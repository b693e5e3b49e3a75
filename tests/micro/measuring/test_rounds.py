"""Rounds until the ratio is known, on scripted time: looks, verdicts, reasons to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices.fake import Fake
from micro.measuring.rounds import ENOUGH, Goal, Measurement, TooSlow, measure, slow
from micro.measuring.workers import ContestWorkers
from micro.planning.contest import Case, Contest
from micro.worker.client import Local
from micro.worker.host import Host
from micro.worker.messages import ContestCost
from reports import stats
from tests.micro.measuring.conftest import CALL, CONTEST, FIRST, PROBLEM, SECOND, SHORT
from tests.simulated.workers import Here, Scripted, measured, run

pytestmark = pytest.mark.usefixtures("no_canaries")


def crew(ratio: float, noise: float, cases: Sequence[Case] = (FIRST, SECOND)) -> ContestWorkers:
    """Cases on the fake device; `naive` takes `ratio` times what the others take."""
    device = Fake(lambda name, problem: CALL * (ratio if name == "naive" else 1.0), noise=noise)
    workers: Any = Here(Local(Host(device, 0)))
    return ContestWorkers(workers, cases, seed=1)


def taken(
    ratio: float = 1.0, noise: float = 0.005, seconds: float = 30.0, margin: float = 0.01, **more: Any
) -> Measurement:
    return measure(crew(ratio, noise), [(0, 1)], Goal(seconds, 0.01, margin, **more), lambda text: None)


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, "same"), (1.05, "slower"), (0.95, "faster"), (3.0, "slower")])
def test_the_answer_is_known(ratio: float, verdict: str) -> None:
    m = taken(ratio)
    judged = stats.judge(m.logs(0, 1), 0.01)
    assert (judged.verdict, m.stopped) == (verdict, "the answer is known")
    assert judged.shown is not None
    assert judged.shown.low < ratio < judged.shown.high
    assert judged.shown.half <= 0.01
    assert len(m.times) in stats.LOOKS


@pytest.mark.parametrize(
    ("round_", "pairs", "first"), [(1e-4, [(0, 1)], 512), (1e-3, [(0, 1)], 64), (1e-4, [], ENOUGH)]
)
def test_cheap_rounds_are_first_looked_at_where_they_see_slow_change(
    monkeypatch: pytest.MonkeyPatch, round_: float, pairs: list[tuple[int, int]], first: int
) -> None:
    monkeypatch.setattr(stats, "PATIENCE", 0.1)
    row = ([CALL, CALL], [CALL, CALL], [0.0, 0.0])
    scripted: Any = Scripted((FIRST, SECOND), ContestCost((4, 4), (CALL, CALL), round_), lambda number: row)
    m = measure(scripted, pairs, Goal(30.0, 0.01, 0.01), lambda text: None)
    assert (len(m.times), m.stopped) == (first, "the answer is known")


def test_a_record_says_how_its_interval_came_about_and_what_it_cannot_see() -> None:
    device = Fake(lambda name, problem: CALL, noise=0.001)
    (compared,) = run(Local(Host(device, 0)), CONTEST).comparisons
    assert (compared.interval, compared.verdict) == (stats.ROUNDS, "same")
    assert compared.p is not None and compared.p < 0.01
    assert any(note.endswith(" rounds do not see slow change") for note in compared.notes)


def test_a_ratio_at_the_margin_is_known_to_be_there() -> None:
    m = taken(1.01, noise=0.0005)
    judged = stats.judge(m.logs(0, 1), 0.01)
    assert (judged.verdict, judged.reason) == ("unresolved", stats.AT_THE_MARGIN)
    assert m.stopped == "the answer is known"
    assert len(m.times) < stats.LOOKS[-1]


def test_how_many_rounds_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(taken(noise=0.05).times) > len(taken(noise=0.001).times) == stats.LOOKS[0]
    assert [len(taken(rounds=count).times) for count in (20, 3)] == [20, 3]
    m = taken(seconds=1e-9)
    assert (len(m.times), m.stopped) == (1, "the budget ran out")
    assert stats.judge(m.logs(0, 1), 0.01, last_only=True).shown is None
    m = measure(crew(1.0, 0.005, (FIRST,)), [], Goal(30.0, 0.01, 0.01), lambda text: None)
    assert (len(m.times), m.stopped) == (ENOUGH, "the answer is known"), "a case alone"
    monkeypatch.setattr(stats, "LOOKS", (8, 16))
    m = taken(noise=0.5)
    assert (len(m.times), m.stopped) == (16, "the maximum number of rounds was reached")


def test_a_small_budget_has_one_look_at_its_last_round() -> None:
    row = ([CALL, 1.2 * CALL], [CALL, CALL], [0.0, 0.0])
    said: list[str] = []
    scripted: Any = Scripted((FIRST, SECOND), SHORT, lambda number: row)
    m = measure(scripted, [(0, 1)], Goal(10.5 * SHORT.round, 0.01, 0.01), said.append)
    assert (len(m.times), scripted.looks, len(said)) == (10, 1, 1)
    assert m.stopped == "the answer is known"


@pytest.mark.parametrize(("left", "rounds"), [(0.0, 2), (4.0, 4), (30.0, 8)])
def test_seconds_for_no_interval_are_filled_up_for_a_first_look_by_what_is_left(left: float, rounds: int) -> None:
    row = ([CALL, CALL], [CALL, CALL], [0.0, 0.0])
    scripted: Any = Scripted((FIRST, SECOND), replace(SHORT, round=0.99), lambda number: row)
    m = measure(scripted, [(0, 1)], Goal(2.0, 1e-9, 0.01, left=left), lambda text: None)
    assert len(m.times) == rounds


def clocked(
    monkeypatch: pytest.MonkeyPatch, took: float, cost: ContestCost, wall: Callable[[int], list[float]], goal: Goal
) -> Measurement:
    """Return what is measured on a clock that every round puts forward by `took`."""
    now = 0.0

    def row(number: int) -> tuple[list[float], list[float], list[float]]:
        nonlocal now
        now += took
        return wall(number), wall(number), [0.0, 0.0]

    monkeypatch.setattr("micro.measuring.rounds.time", SimpleNamespace(monotonic=lambda: now))
    scripted: Any = Scripted((FIRST, SECOND), cost, row)
    return measure(scripted, [(0, 1)], goal, lambda text: None)


def test_rounds_that_are_slower_than_they_were_when_opened_go_on_to_an_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Foreseen are eight in the budget; they take four times as long."""
    for left, rounds in ((30.0, stats.FEWEST), (8.0, 4), (0.0, 3)):
        cost, goal = ContestCost((1, 1), (0.2, 0.2), 0.5), Goal(4.0, 1e-9, 0.01, left=left)
        assert len(clocked(monkeypatch, 2.0, cost, lambda number: [1.0, 1.0], goal).times) == rounds


@pytest.mark.parametrize(("seconds", "fixed", "rounds"), [(30.0, None, 50), (60.0, None, 100), (10.0, 20, 20)])
def test_rounds_longer_than_a_sign_of_life_go_on_to_the_budget(
    seconds: float, fixed: int | None, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the ratio is not known before. One of 0.6 s each."""
    cost, goal = ContestCost((1, 1), (0.3, 0.3), 0.6), Goal(seconds, 0.01, 0.01, rounds=fixed)
    m = clocked(monkeypatch, 0.6, cost, lambda number: [0.3, 0.3 * (1 + 0.5 * (number % 2))], goal)
    assert len(m.times) == pytest.approx(rounds, abs=1)
    assert m.stopped == "the budget ran out"


@pytest.mark.parametrize(("ratio", "seconds", "left"), [(30.0, 2.0, False), (30.0, 100.0, True), (9.0, 2.0, True)])
def test_far_slower_cases_leave_few_rounds_to_the_others(ratio: float, seconds: float, left: bool) -> None:
    """Only where rounds are few, and only what is far slower than the first."""
    device = Fake(lambda name, problem: 1e-2 * (ratio if name == "naive" else 1.0), noise=0.001)
    three = Contest("three", "?", "variant", (FIRST, Case(PROBLEM, "numpy"), SECOND), sparing=True)
    done = run(Local(Host(device, 0)), three, seconds)
    _, numpy, naive = measured(done)
    assert (naive.status == "skipped") != left and numpy.seconds
    if not left:
        assert naive.reason == "left out to save time for the others: about 30 times openblas's time"
        assert done.comparisons[0].ratio and done.comparisons[1].verdict == "not comparable"
    plain = run(Local(Host(device, 0)), replace(three, sparing=False), seconds)
    assert measured(plain)[2].status != "skipped"


def test_a_slow_first_call_leaves_nobody_out() -> None:
    """What calls were thought to take when the contest was opened, two rounds may contradict."""
    row = ([CALL, CALL], [CALL, CALL], [0.0, 0.0])
    scripted: Any = Scripted((FIRST, SECOND), ContestCost((1, 1), (CALL, 50 * CALL), 1.0), lambda number: row)
    goal = Goal(10.0, 0.01, 0.01)
    m = measure(scripted, [(0, 1)], goal, lambda text: None, sparing=True)
    assert slow(scripted.cases, scripted.opened, goal) == [1] and len(m.times) == 10
    row[0][1] = 50 * CALL
    with pytest.raises(TooSlow) as refused:
        measure(scripted, [(0, 1)], goal, lambda text: None, sparing=True)
    assert refused.value.times == {1: pytest.approx(50)}
