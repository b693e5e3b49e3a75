"""Rounds until the ratio is known, on scripted time: verdicts, reasons to stop, rejection, contention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices.base import Elapsed
from kernels.devices.fake import Fake
from kernels.launch import Setting
from kernels.ops.gemm.problem import Gemm
from micro.measuring import canary_history
from micro.measuring.clocks import clocks
from micro.measuring.rounds import ENOUGH, Goal, Measurement, measure
from micro.measuring.workers import Crew
from micro.planning.contest import Case, Contest
from micro.worker import canaries, counters
from micro.worker.client import Local
from micro.worker.counters import Counters
from micro.worker.host import Host
from micro.worker.messages import ContestCost
from reports import stats
from tests.simulated.workers import Here, Scripted, measured, run

PROBLEM = Gemm(8, 8, 8)
FIRST, SECOND = Case(PROBLEM, "openblas"), Case(PROBLEM, "naive")
CONTEST = Contest("two", "which is faster?", "variant", (FIRST, SECOND))
CALL = 17e-6
SHORT = ContestCost((4, 4), (CALL, CALL), 2e-4)


@pytest.fixture(autouse=True)
def _quiet(light_fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])


def crew(ratio: float, noise: float, cases: Sequence[Case] = (FIRST, SECOND)) -> Crew:
    """Cases on the fake device; `naive` takes `ratio` times what the others take."""
    device = Fake(lambda name, problem: CALL * (ratio if name == "naive" else 1.0), noise=noise)
    workers: Any = Here(Local(Host(device, 0)))
    return Crew(workers, cases, seed=1)


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


def test_more_noise_takes_more_rounds() -> None:
    assert len(taken(noise=0.05).times) > len(taken(noise=0.001).times) == stats.LOOKS[0]


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


def test_the_most_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "LOOKS", (8, 16))
    m = taken(noise=0.5)
    assert (len(m.times), m.stopped) == (16, "the most rounds were taken")


def test_a_tiny_budget_takes_one_round_and_says_so() -> None:
    m = taken(seconds=1e-9)
    assert (len(m.times), m.stopped) == (1, "the budget ran out")
    assert stats.judge(m.logs(0, 1), 0.01, last_only=True).shown is None


def test_a_small_budget_has_one_look_at_its_last_round() -> None:
    row = ([CALL, 1.2 * CALL], [CALL, CALL], [0.0, 0.0])
    said: list[str] = []
    scripted: Any = Scripted((FIRST, SECOND), SHORT, lambda number: row)
    m = measure(scripted, [(0, 1)], Goal(10.5 * SHORT.round, 0.01, 0.01), said.append)
    assert (len(m.times), scripted.looks, len(said)) == (10, 1, 1)
    assert m.stopped == "the answer is known"


@pytest.mark.parametrize(("seconds", "fixed", "rounds"), [(30.0, None, 50), (60.0, None, 100), (10.0, 20, 20)])
def test_rounds_longer_than_a_sign_of_life_go_on_to_the_budget(
    seconds: float, fixed: int | None, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the ratio is not known before. One of 0.6 s each."""
    now = 0.0

    def row(number: int) -> tuple[list[float], list[float], list[float]]:
        nonlocal now
        now += 0.6
        wall = [0.3, 0.3 * (1 + 0.5 * (number % 2))]
        return wall, wall, [0.0, 0.0]

    monkeypatch.setattr("micro.measuring.rounds.time", SimpleNamespace(monotonic=lambda: now))
    scripted: Any = Scripted((FIRST, SECOND), ContestCost((1, 1), (0.3, 0.3), 0.6), row)
    m = measure(scripted, [(0, 1)], Goal(seconds, 0.01, 0.01, rounds=fixed), lambda text: None)
    assert len(m.times) == pytest.approx(rounds, abs=1)
    assert m.stopped == "the budget ran out"


def test_a_case_alone_takes_enough_rounds() -> None:
    m = measure(crew(1.0, 0.005, (FIRST,)), [], Goal(30.0, 0.01, 0.01), lambda text: None)
    assert (len(m.times), m.stopped) == (ENOUGH, "the answer is known")


def test_a_fixed_number_of_rounds() -> None:
    assert len(taken(rounds=20).times) == 20
    assert len(taken(rounds=3).times) == 3


def lossy(lost: Callable[[int], Sequence[float]], opened: ContestCost = SHORT, **more: Any) -> Measurement:
    """Rounds of two cases, the second 20 % slower, that lose what `lost` says."""
    count = len(opened.visits)

    def row(number: int) -> tuple[list[float], list[float], Sequence[float]]:
        wall = [CALL * (1 + 0.2 * i) * (1 + 1e-4 * (number % 3)) for i in range(count)]
        return wall, wall, lost(number)

    cases = more.pop("cases", (FIRST, SECOND))
    scripted: Any = Scripted(cases, opened, row, more.pop("most", 5000))
    return measure(scripted, [(0, 1)], Goal(more.pop("seconds", 30.0), 0.01, 0.01, **more), lambda text: None)


def test_what_a_visit_lost_is_taken_off_where_its_round_is_not_rejected() -> None:
    """A ceiling of 60 µs that a neighbor stopped for 4 ms, beside cases that it did not stop."""
    opened = ContestCost((1, 1, 1), (CALL, CALL, CALL), 1e-2)
    stopped = lambda number: ([CALL, CALL, 4e-3], [CALL, CALL, CALL], [0.0, 0.009, 0.98])  # noqa: E731
    cases = (FIRST, SECOND, Case(PROBLEM, "blocked", role="ceiling"))
    scripted: Any = Scripted(cases, opened, stopped)
    m = measure(scripted, [(0, 1)], Goal(30.0, 0.01, 0.01, rounds=8), lambda text: None)
    assert not m.rejected.any()
    assert m.times[0].tolist() == [CALL, CALL, 4e-3]
    assert m.undisturbed.tolist() == [[CALL, CALL, CALL]] * 8


@pytest.mark.parametrize("case", [0, 1])
def test_a_round_in_which_one_visit_lost_time_is_rejected(case: int) -> None:
    m = lossy(lambda number: [0.02 if number % 3 == 0 and i == case else 0.0 for i in range(2)])
    assert m.rejected.tolist() == [number % 3 == 0 for number in range(len(m.times))]
    assert int(m.accepted.sum()) == stats.LOOKS[0]
    assert len(m.logs(0, 1)) == stats.LOOKS[0]
    assert len(m.times) > stats.LOOKS[0]


def test_a_hundredth_lost_is_not_too_much() -> None:
    assert not lossy(lambda number: [0.01, 0.0099]).rejected.any()


def test_long_visits_are_never_rejected() -> None:
    m = lossy(lambda number: [0.5, 0.5], ContestCost((1, 1), (5e-3, 5e-3), 1e-2))
    assert m.clocks == ("cpu", "cpu")
    assert not m.rejected.any()


def test_long_visits_are_never_rejected_for_what_they_lost_by_the_wall_either() -> None:
    """Where this system tells no waits from losses; a short rival's losses reject."""
    mixed = ContestCost((1, 1), (5e-3, CALL), 1e-2, queues=False)
    m = lossy(lambda number: [0.5, 0.0], mixed)
    assert m.clocks == ("wall", "wall") and not m.rejected.any()
    m = lossy(lambda number: [0.0, 0.5 if number < 2 else 0.0], mixed)
    assert m.rejected.tolist()[:3] == [True, True, False]


def test_several_threads_are_never_rejected() -> None:
    cases = [Case(PROBLEM, name, Setting(threads=2)) for name in ("openblas", "naive")]
    assert not lossy(lambda number: [0.5, 0.5], cases=cases).rejected.any()


@pytest.mark.parametrize(("kept", "counted"), [(stats.FEWEST, stats.FEWEST), (stats.FEWEST - 1, 15)])
def test_too_few_accepted_rounds_make_all_count(monkeypatch: pytest.MonkeyPatch, kept: int, counted: int) -> None:
    """Fifteen rounds and then no more: every look after the first is empty-handed."""
    monkeypatch.setattr("micro.measuring.rounds.OVERRUN", 0.0)
    m = lossy(lambda number: [0.0 if number < kept else 0.02, 0.0], seconds=15.5 * SHORT.round)
    assert len(m.times) == 15
    assert int((~m.rejected).sum()) == kept
    assert int(m.accepted.sum()) == len(m.logs(0, 1)) == counted


def test_a_machine_that_is_never_quiet_still_gets_an_answer() -> None:
    m = lossy(lambda number: [0.5, 0.5], seconds=0.02)
    assert m.rejected.all()
    assert m.accepted.all()
    assert stats.judge(m.logs(0, 1), 0.01).verdict == "slower"


def test_a_fixed_number_of_rounds_ends_though_all_are_rejected() -> None:
    assert len(lossy(lambda number: [0.5, 0.5], rounds=8, seconds=0.02, most=100).times) >= 8


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


def test_a_system_that_tells_no_waits_from_losses_takes_the_wall() -> None:
    assert clocks([FIRST], ContestCost((1,), (1.0,), 1.0, queues=False)) == ("wall",)


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

    def __init__(self, period: int) -> None:
        super().__init__(lambda name, problem: CALL, noise=0.001)
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
    assert measured(told)[0].rejected or period == 41
    assert told.comparisons[0].verdict == "same"  # contention costs neither time nor verdict


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
        assert "waited of its own accord for 30% of its time, which counts" in result.warnings


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

    def settle(self, calls: Sequence[Sequence[float]], visit: float) -> ContestCost:
        return replace(super().settle(calls, visit), **self.more)


@pytest.mark.parametrize(("share", "said"), [(0.0, ""), (0.004, ""), (0.006, "1 %"), (0.03, "5 %"), (2.0, "100 %")])
def test_very_short_calls_say_what_of_them_is_the_loop(own_state: Path, share: float, said: str) -> None:
    told = run(Local(Opening(loop=share * CALL)), CONTEST, seconds=0.3)
    assert told.loop == (share * CALL or None)
    notes = [note for note in told.comparisons[0].notes if "throughput" in note]
    assert len(notes) == bool(said) and all(f"up to {said} of the shorter one" in note for note in notes)


@pytest.mark.parametrize("queues", [True, False])
def test_a_system_without_run_delays_is_told(own_state: Path, queues: bool) -> None:
    told = run(Local(Opening(queues=queues)), CONTEST, seconds=0.3)
    for result in measured(told):
        assert result.clock == "wall"
        assert any("how long a process is queued" in warning for warning in result.warnings) != queues


def test_a_throttled_run_is_contended(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    periods = iter(range(1000))
    monkeypatch.setattr(counters.Counters, "now", lambda: Counters(throttled=next(periods)))
    told = run(Local(Host(Fake(lambda name, problem: CALL), 0)), CONTEST)
    for result in measured(told):
        assert result.status == "contended"
        assert any("throttled" in warning for warning in result.warnings)


@pytest.mark.parametrize(("threads", "status"), [(2, "contended"), (1, "ok")])
def test_others_on_the_machine_matter_to_several_threads(
    own_state: Path, monkeypatch: pytest.MonkeyPatch, threads: int, status: str
) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(counters.Counters, "now", lambda: Counters(clock=(s := next(seconds)), busy=0.5 * s))
    cases = tuple(Case(PROBLEM, name, Setting(threads)) for name in ("openblas", "naive"))
    contest = Contest("two", "which is faster?", "variant", cases)
    told = run(Local(Host(Fake(lambda name, problem: CALL), 0)), contest)
    assert [result.status for result in measured(told)] == [status, status]


def history(name: str, seen: Sequence[float]) -> canary_history.History:
    """An environment in which the canary `name` took so long."""
    for took in seen:  # a value a command
        known = canary_history.History("test")
        if not known.slow({name: took}):
            known.remember({name: took})
        known.save()
    return canary_history.History("test")


FMA, READ = "fma/isa:avx2", f"stream/kind:read/size:{canaries.SMALL}"
LARGE = "stream/kind:read/size:134217728"


@pytest.mark.parametrize(
    ("name", "excess", "slow"),
    [
        (FMA, 0.02, False),
        (FMA, 0.05, True),
        (READ, 0.12, False),
        (READ, 0.2, True),
        (LARGE, 0.2, False),
        (LARGE, 0.3, True),
    ],
)
def test_a_slow_host_is_told_from_its_own_past(own_state: Path, name: str, excess: float, slow: bool) -> None:
    known = history(name, [1e-5, 1.001e-5] * 8)
    said = known.slow({name: 1e-5 * (1 + excess)})
    assert bool(said) == slow
    words = {FMA: "a chain of multiply-adds", READ: "a read of 4 MiB", LARGE: "a read of 128 MiB"}
    assert said is None or f"slow host: {words[name]} took" in said


def test_a_host_that_always_varies_is_not_called_slow(own_state: Path) -> None:
    assert history(FMA, [1e-5, 1.1e-5] * 8).slow({FMA: 1.2e-5}) is None


def test_a_short_past_says_nothing(own_state: Path) -> None:
    assert history(FMA, [1e-5] * 7).slow({FMA: 1e-4}) is None


def test_the_past_is_kept_and_bounded(own_state: Path) -> None:
    history(FMA, [1e-5] * 100)
    assert canary_history.History("test").slow({FMA: 1e-4}) is not None
    assert canary_history.History("another").slow({FMA: 1e-4}) is None
    (file,) = (own_state / "canary").iterdir()
    assert file.read_text().count("1e-05") == canary_history.HISTORY


@pytest.mark.parametrize(
    "text", ["", "junk", '{"fma', *(pytest.param(x) for x in ("[1, 2]", "null", '{"fma/isa:avx2": 5}'))]
)
def test_a_damaged_past_is_forgotten(own_state: Path, text: str) -> None:
    (own_state / "canary").mkdir(parents=True)
    (own_state / "canary" / "test.json").write_text(text)
    assert canary_history.History("test").slow({FMA: 1e-4}) is None
