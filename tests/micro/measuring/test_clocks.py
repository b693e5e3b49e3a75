"""Which clock a contest has, and what results say of time lost, waited and spent in the loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.devices.base import Elapsed
from kernels.devices.fake import Fake
from kernels.setting import Setting
from micro.measuring.clocks import clocks
from micro.measuring.results import path
from micro.measuring.rounds import CONTENDED, Goal, measure
from micro.planning.contest import Case, Contest
from micro.worker import counters
from micro.worker.client import Local
from micro.worker.counters import Counters
from micro.worker.host import Host
from micro.worker.messages import ContestCost
from tests.micro.measuring.conftest import CALL, CONTEST, FIRST, PROBLEM, SECOND
from tests.simulated.workers import Scripted, measured, run

pytestmark = pytest.mark.usefixtures("no_canaries")


@pytest.mark.parametrize(
    ("call", "launches", "threads", "clock"),
    [
        (CALL, 4, 1, "wall"),
        (0.99e-3, 1, 1, "wall"),
        (1e-3, 1, 1, "cpu"),
        (0.1e-3, 10, 1, "cpu"),  # it is the visit that counts
        (1.0, 1, 2, "wall"),
    ],
)
def test_the_clock_of_a_case(call: float, launches: int, threads: int, clock: str) -> None:
    case = Case(PROBLEM, "openblas", Setting(threads=threads))
    assert clocks([case], ContestCost((launches,), (call * launches,), call)) == (clock,)
    no_queues = ContestCost((launches,), (call * launches,), call, queues=False)  # waits are not told from losses
    assert clocks([case], no_queues) == ("wall",)


@pytest.mark.parametrize(
    ("visits", "clock"),
    [
        ((0.9e-3, 1.1e-3), "wall"),
        ((1.1e-3, 2e-3), "cpu"),
        ((CALL, 3.9e-3), "wall"),
        ((CALL, 4.1e-3), "cpu"),  # a neighbor stops it in every round, and its rival is far away
    ],
)
def test_a_contest_has_one_clock(visits: tuple[float, float], clock: str) -> None:
    """Its bounds have it too; they do not choose it."""
    cases, bound = (FIRST, SECOND), Case(PROBLEM, "blocked", role="ceiling")
    for ceiling in (CALL, 1.0):
        opened = ContestCost((1, 1, 1), (*visits, ceiling), 1e-2)
        assert clocks((*cases, bound), opened) == (clock,) * 3


def test_by_the_processors_clock_times_are_processor_time_with_waits() -> None:
    opened = ContestCost((4, 1), (2e-3, 2e-3), 1e-2)
    scripted: Any = Scripted((FIRST, SECOND), opened, lambda number: ([1.0, 2.0], [3.0, 4.0], [0.0, 0.0]))
    m = measure(scripted, [(0, 1)], Goal(30.0, 0.01, 0.01), lambda text: None)
    assert m.times.tolist() == [[3.0, 4.0]] * len(m.times)
    assert m.logs(0, 1) == pytest.approx([math.log(4 / 3)] * len(m.times))


class Busy(Fake):
    """Of every `period` visits one loses half of its time to others."""

    def __init__(self, period: int, call: float = CALL) -> None:
        super().__init__(lambda name, problem: call, noise=0.001)
        self.period, self.visits = period, 0

    def between(self, start: Any, end: Any) -> Elapsed:
        self.visits += 1
        wall = super().between(start, end).wall
        return Elapsed(wall, wall / 2 if self.visits % self.period == 0 else wall)


# Four visits a round: two cases, two ceilings. One visit in 41 is a round in ten; one in three, most rounds.
@pytest.mark.parametrize(("period", "status"), [(41, "ok"), (3, "contended"), (1, "contended")])
def test_a_result_is_contended_above_a_fifth(own_state: Path, period: int, status: str) -> None:
    told = run(Local(Host(Busy(period), 0)), CONTEST, seconds=0.3)
    for result in measured(told):
        assert (result.status, bool(result.seconds)) == (status, True)
        assert any("lost more than" in warning for warning in result.warnings) == (status == "contended")
        assert len(result.samples) == len(result.rounds) and result.wall_samples == ()
        assert set(result.rejected) <= set(result.rounds)
        assert result.lost is not None and (result.lost > CONTENDED) == (status == "contended")
    assert measured(told)[0].rejected or period == 41
    assert told.comparisons[0].verdict == ("unresolved" if period == 1 else "same")


def test_of_rounds_that_were_all_rejected_there_are_times_and_no_verdict(own_state: Path) -> None:
    told = run(Local(Host(Busy(1), 0)), CONTEST, seconds=0.3)
    (compared,) = told.comparisons
    assert (compared.verdict, compared.ratio, compared.p) == ("unresolved", None, None)
    reason = f"0 of the 6 rounds that an interval needs, {len(measured(told)[0].rounds)} more were rejected"
    assert compared.reason == f"{reason}; the budget ran out"
    for result in measured(told):
        assert result.seconds is not None and result.seconds.median == pytest.approx(CALL, rel=0.02)
        assert result.warnings == (
            "100% of its rounds lost more than 1 % of their time to other processes and were rejected: "
            "no other rounds remain, so its time is from these",
        )


def test_by_processor_time_rounds_that_lost_time_count_and_are_said_to(own_state: Path) -> None:
    told = run(Local(Host(Busy(1, 5e-3), 0)), CONTEST, seconds=1.0)
    assert told.comparisons[0].verdict == "same"
    for result in measured(told):
        assert (result.status, result.clock, result.rejected, result.lost) == ("contended", "cpu", (), 1.0)
        assert result.warnings == (
            "100% of its rounds lost more than 1 % of their time to other processes; "
            "CPU time excludes this, so they count",
        )


class Sleeper(Fake):
    """Three tenths of each visit it waits, and nobody takes anything."""

    def between(self, start: Any, end: Any) -> Elapsed:
        wall = super().between(start, end).wall
        return Elapsed(wall, 0.7 * wall, 0.0)


@pytest.mark.parametrize(("call", "clock"), [(CALL, "wall"), (5e-3, "cpu")])
def test_what_a_kernel_waits_of_its_own_accord_is_its_time(
    own_state: Path, monkeypatch: pytest.MonkeyPatch, call: float, clock: str
) -> None:
    monkeypatch.setattr(counters.Counters, "now", Counters)  # nothing was stolen
    told = run(Local(Host(Sleeper(lambda name, problem: call), 0)), CONTEST, seconds=0.3)
    for result in measured(told):
        assert (result.status, result.clock, result.rejected) == ("ok", clock, ())
        assert result.seconds is not None and result.seconds.median == pytest.approx(call, rel=0.02)
        assert result.waits == pytest.approx(0.3, abs=0.01)
        assert "waited voluntarily for 30% of its time (included)" in result.warnings


def test_what_the_hypervisor_stole_of_a_look_is_no_wait(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth; it is lost."""
    seconds = iter(range(1000))
    monkeypatch.setattr(counters.Counters, "now", lambda: Counters(clock=(s := next(seconds)), stolen=0.1 * s))
    told = run(Local(Host(Sleeper(lambda name, problem: 5e-3), 0)), CONTEST, seconds=0.3)
    for result in measured(told):
        assert result.status == "contended"
        assert result.seconds is not None and result.seconds.median == pytest.approx(0.9 * 5e-3, rel=0.02)
        assert result.waits == pytest.approx(2 / 9, abs=0.01)


class Opening(Host):
    """A contest costs what `more` says."""

    def __init__(self, **more: Any) -> None:
        super().__init__(Fake(lambda name, problem: CALL), 0)
        self.more = more

    def calibrate(self, calls: Sequence[Sequence[float]], visit: float) -> ContestCost:
        return replace(super().calibrate(calls, visit), **self.more)


@pytest.mark.parametrize(("share", "said"), [(0.0, ""), (0.004, ""), (0.006, "1 %"), (0.03, "5 %"), (2.0, "100 %")])
def test_very_short_calls_say_what_of_them_is_the_loop(own_state: Path, share: float, said: str) -> None:
    told = run(Local(Opening(loop=share * CALL)), CONTEST, seconds=0.3)
    assert told.loop == (share * CALL or None)
    notes = [note for note in told.comparisons[0].notes if "throughput" in note]
    assert len(notes) == bool(said) and all(f"up to {said} of the shorter time" in note for note in notes)


@pytest.mark.parametrize("queues", [True, False])
def test_a_system_without_run_delays_is_told(own_state: Path, queues: bool) -> None:
    told = run(Local(Opening(queues=queues)), CONTEST, seconds=0.3)
    for result in measured(told):
        assert result.clock == "wall"
        assert any("does not report queueing times" in warning for warning in result.warnings) != queues


@pytest.mark.parametrize(
    ("threads", "status", "field", "share"),
    [(2, "contended", "busy", 0.5), (1, "ok", "busy", 0.5), (1, "contended", "throttled", 1)],
)
def test_others_on_the_machine_matter_to_several_threads(
    own_state: Path, monkeypatch: pytest.MonkeyPatch, threads: int, status: str, field: str, share: float
) -> None:
    """A throttled run is contended by any."""
    seconds = iter(range(1000))
    monkeypatch.setattr(counters.Counters, "now", lambda: Counters(clock=(s := next(seconds)), **{field: share * s}))
    cases = tuple(Case(PROBLEM, name, Setting(threads)) for name in ("openblas", "naive"))
    told = run(Local(Host(Fake(lambda name, problem: CALL), 0)), Contest("two", "which?", "variant", cases))
    for result in measured(told):
        assert result.status == status
        assert any("throttled" in warning for warning in result.warnings) == (field == "throttled")


# Paths


LIBRARY, TWO = Case(PROBLEM, "openblas"), Case(PROBLEM, "openblas", Setting(threads=2))
SPREAD, ALIKE = np.arange(16).reshape(8, 2) * 64, np.full((8, 2), 128)


LONG, WALL, CPU = Goal(1.0, 0.01, 0.01), ("wall", "wall"), ("cpu", "cpu")


@pytest.mark.parametrize(
    ("second", "clocks", "places", "goal", "words"),
    [
        (LIBRARY, WALL, SPREAD, LONG, "wall"),
        (LIBRARY, CPU, SPREAD, LONG, "cpu"),
        (LIBRARY, CPU, SPREAD, replace(LONG, seconds=0.63), "cpu, one look"),
        (LIBRARY, CPU, SPREAD, replace(LONG, seconds=9.0, rounds=8), "cpu, one look"),
        (LIBRARY, CPU, ALIKE, LONG, "cpu, fixed placement"),
        (LIBRARY, WALL, ALIKE[:1], LONG, "wall"),
        (Case(PROBLEM, "numpy"), WALL, SPREAD, LONG, "wall, python"),
        (TWO, WALL, SPREAD, LONG, "wall, threads, lockstep"),
        (Case(PROBLEM, "openblas", Setting(heap="keep")), WALL, SPREAD, LONG, "wall, lockstep"),
    ],
)
def test_path(second: Case, clocks: tuple[str, str], places: Any, goal: Goal, words: str) -> None:
    def taken(*cases: Case) -> tuple[str, ...]:
        cost = ContestCost((1, 1), (1e-3, 1e-3), 0.01)
        measured: Any = SimpleNamespace(clocks=clocks, opened=cost, look=SimpleNamespace(places=places))
        return path(cases, measured, goal, (0, 1))

    assert taken(LIBRARY, second) == tuple(words.split(", "))
    assert second != TWO or taken(TWO, TWO) == ("wall", "threads")
