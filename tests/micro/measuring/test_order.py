"""The order of a measurement, word by word, read off the fake device's journal; and a fault at every word."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices.fake import Fake
from kernels.errors import LaunchError, NoRoom, Unavailable, WrongResult
from kernels.launch import Launch
from kernels.setting import Setting
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import VISIT, Budget
from micro.worker import visits as worker_visits
from micro.worker.client import Died, Local
from micro.worker.host import Host
from micro.worker.messages import Message, R, RunRounds
from micro.worker.turns import CALLS
from tests.micro.measuring.conftest import CALL, CONTEST, FIRST, PROBLEM, SECOND
from tests.simulated.workers import measured, run

CELL = ctypes.c_int32(-1)  # of the case under way


def visit(name: str, launches: int = 1, warm: int = 2) -> list[str]:
    """A visit as it ought to be."""
    timed = ["hold", "mark", *[f"launch {name}"] * launches, "mark", "release", "sync", "between"]
    return [*[f"launch {name}"] * warm, "sync", *timed]


def fake(faults: dict[str, Exception] | None = None) -> Fake:
    """Every launch takes the same time, to the last digit."""
    return Fake(seconds=lambda variant, problem: CALL, faults=faults, noise=0.0)


def bound(device: Fake, name: str) -> Launch:
    """A launch of a variant called `name`."""
    twin = device.adopt(replace(find("gemm", "openblas"), name=name))
    launch = twin.prepare(PROBLEM, device, Setting())([np.zeros((8, 8), "f4") for _ in "abc"])
    device.journal.clear()
    return launch


def steps(names: str, launches: int, warm: int, cold: bool) -> tuple[list[str], worker_visits.Timed]:
    """The journal of one visit to each of `names`, by micro.worker.visits.stepwise."""
    device, kinds = fake(), sorted(set(names))
    by_name, count = {name: bound(device, name) for name in kinds}, len(kinds)
    order, each = np.array([kinds.index(name) for name in names]), list(range(count))
    visits = worker_visits.Visits(order, [], [launches] * count, [warm] * count, [cold] * count, each)
    timed = worker_visits.stepwise(device, [[by_name[name]] for name in names], visits, ctypes.addressof(CELL))
    return device.journal, timed


WARM, BEFORE, AFTER = ["launch X", "launch X"], ["sync", "hold", "mark"], ["mark", "release", "sync", "between"]


@pytest.mark.parametrize(
    ("launches", "warm", "cold", "words"),
    [
        (1, 2, False, [*WARM, *BEFORE, "launch X", *AFTER]),
        (3, 2, False, [*WARM, *BEFORE, *["launch X"] * 3, *AFTER]),  # one pair of marks
        (1, 0, False, [*BEFORE, "launch X", *AFTER]),  # a long launch is not warmed up
        (1, 0, True, ["flush", *BEFORE, "launch X", *AFTER]),  # flushed last before its launch
    ],
)
def test_a_visit(launches: int, warm: int, cold: bool, words: list[str]) -> None:
    journal, timed = steps("X", launches, warm, cold)
    assert journal == words
    assert timed.wall == pytest.approx([launches * CALL])


def test_visits_come_in_the_order_handed_in() -> None:
    journal, timed = steps("XYYX", launches=1, warm=2, cold=False)
    assert journal == [word for name in "XYYX" for word in visit(name)] and len(timed.wall) == 4


def heard(device: Fake, call: Callable[[], object]) -> list[str]:
    """The journal of one call."""
    device.journal.clear()
    call()
    return list(device.journal)


def test_a_contest(no_canaries: None) -> None:
    device = fake()
    host = Host(device, 0)
    assert heard(device, lambda: host.prepare(FIRST)) == ["prepare openblas"]
    probes = heard(device, lambda: host.check(FIRST, 1))
    launched = probes.index("launch openblas")
    assert set(probes[:launched]) <= {"prepare openblas"}
    assert probes[launched:] == ["launch openblas", "sync", "sync"] * CALLS  # timed, then read
    one, many = visit("openblas", 1, 0), visit("openblas", 4, 0)
    ramp = one * 4 * 3  # three medians of four, which are alike here
    assert heard(device, lambda: host.calibrate(host.open([FIRST], [True], 1), VISIT)) == ramp + one + many * 2
    assert heard(device, lambda: host.run_rounds(0, 3)) == visit("openblas", 4) * 3
    assert heard(device, host.close) == []


def test_a_round_visits_every_case_once_in_fresh_order(no_canaries: None) -> None:
    device = fake()
    host = Host(device, 0)
    host.calibrate(host.open([FIRST, SECOND], [True, True], 1), VISIT)
    words = heard(device, lambda: host.run_rounds(0, 16))
    length = len(visit("X", 4))
    visits = [words[i : i + length] for i in range(0, len(words), length)]
    rounds = [(visits[i], visits[i + 1]) for i in range(0, len(visits), 2)]
    orders = ((visit("openblas", 4), visit("naive", 4)), (visit("naive", 4), visit("openblas", 4)))
    assert len(rounds) == 16
    assert {orders.index(pair) for pair in rounds} == {0, 1}


def test_the_order_of_a_look_depends_on_seed_and_round_alone(no_canaries: None) -> None:
    def order(seed: int, first: int) -> list[str]:
        device = fake()
        host = Host(device, 0)
        host.calibrate(host.open([FIRST, SECOND], [True, True], seed), VISIT)
        return heard(device, lambda: host.run_rounds(first, 16))

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 16)
    assert order(1, 0) != order(2, 0)


def test_canaries_come_before_the_rounds(light_fake: None) -> None:
    device = fake()
    host = Host(device, 0)
    opening = heard(device, lambda: host.calibrate(host.open([FIRST], [True], 1), VISIT))
    assert opening[:4] == ["prepare openblas", "prepare c", "prepare c", "prepare c"]
    words = heard(device, lambda: host.run_rounds(0, 2))
    rounds = visit("openblas", 4) * 2
    canaries = words[: -len(rounds)]
    assert words[-len(rounds) :] == rounds
    assert canaries == visit("c", 1, 1) * (len(canaries) // len(visit("c", 1, 1)))
    assert len(canaries) >= 3 * len(visit("c", 1, 1))


@pytest.fixture
def quiet(own_state: Path, light_fake: None) -> None:
    """Neither history nor large arenas."""


NO = "the device says no"
ERRORS = pytest.mark.parametrize(
    "error", [LaunchError(NO), MemoryError(NO), RuntimeError(NO)], ids=lambda x: type(x).__name__
)


def test_without_a_fault_both_have_times(quiet: None) -> None:
    told = run(Local(Host(fake(), 0)), CONTEST)
    assert [result.status for result in measured(told)] == ["ok", "ok"]
    assert told.comparisons[0].verdict in ("same", "unresolved", "slower", "faster")


@ERRORS
@pytest.mark.parametrize("step", ["prepare openblas", "launch openblas"])
def test_a_fault_of_one_case_costs_that_case(quiet: None, step: str, error: Exception) -> None:
    told = run(Local(Host(fake({step: error}), 0)), CONTEST)
    first, second = measured(told)
    assert (first.status, first.seconds) == ("failed", None) and NO in (first.reason or "")
    assert second.status == "ok"
    assert second.seconds is not None and second.seconds.median == pytest.approx(CALL)
    assert told.comparisons[0].verdict == "not comparable"
    assert "openblas" in (told.comparisons[0].reason or "")


@ERRORS
@pytest.mark.parametrize("step", ["sync", "mark", "hold", "release", "between"])
def test_a_fault_of_the_device_costs_both_their_times(quiet: None, step: str, error: Exception) -> None:
    told = run(Local(Host(fake({step: error}), 0)), CONTEST)
    for result in measured(told):
        assert (result.status, result.seconds) == ("failed", None) and NO in (result.reason or "")
    assert told.comparisons[0].verdict == "not comparable"


@pytest.mark.parametrize(
    ("step", "error", "statuses", "reason"),
    [
        ("launch openblas", WrongResult("returns zeros"), ["wrong", "ok"], "returns zeros"),
        ("prepare openblas", Unavailable("no such library"), ["skipped", "ok"], "no such library"),
        ("sync", NoRoom("14 GiB are more than are free"), ["skipped"] * 2, "14 GiB are more than are free"),
        ("prepare c", Unavailable("no C compiler"), ["failed"] * 2, "no C compiler"),  # of a ceiling
    ],
)
def test_what_is_wrong_or_missing_has_a_reason(
    quiet: None, step: str, error: Exception, statuses: list[str], reason: str
) -> None:
    found = measured(run(Local(Host(fake({step: error}), 0)), CONTEST))
    assert [result.status for result in found] == statuses
    assert reason in (found[0].reason or "") and found[0].seconds is None


class DiesOnce(Local):
    """Its process dies in the first look, while case `culprit` is under way."""

    def __init__(self, host: Host, culprit: int) -> None:
        super().__init__(host)
        self.culprit, self.alive = culprit, True

    def receive(self, request: Message[R], patience: float) -> R:
        if isinstance(request, RunRounds) and self.alive:
            self.alive = False
            raise Died("crashes: its process was killed by SIGSEGV")
        return super().receive(request, patience)

    def running(self) -> int:
        return self.culprit


@pytest.mark.parametrize(
    ("culprit", "failed"),
    [(0, [0]), (1, [1]), pytest.param(-1, [0, 1], id="of no case in particular"), (2, []), (3, [])],
)
def test_a_crash_while_timing_costs_the_case_under_way(quiet: None, culprit: int, failed: list[int]) -> None:
    told = run(DiesOnce(Host(fake(), 0), culprit), CONTEST)
    found = measured(told)
    assert [i for i, result in enumerate(found) if result.status == "failed"] == failed
    assert all("SIGSEGV" in (found[i].reason or "") for i in failed)
    assert failed or (len(told.results) == 3 and "SIGSEGV" in told.results[0].warnings[0])  # a ceiling's costs itself


def test_a_worker_that_dies_at_its_start_fails_its_case(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from micro.worker import process

    def stillborn(setting: object) -> None:
        raise Died("ends its process with exit code 1")

    monkeypatch.setattr(process, "Worker", stillborn)
    runner = Runner(Checks(process.Workers()), {"cpu": Fake().limits()}, History("none"))
    told = runner.run(CONTEST, 10.0, Budget(10.0))
    assert [result.status for result in measured(told)] == ["failed", "failed"]
