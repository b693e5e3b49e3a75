"""Rounds that lost time to others, on scripted time, and a slow host, told from what its canaries took before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernels.setting import Setting
from micro.measuring import canary_history
from micro.measuring.rounds import Goal, Measurement, measure
from micro.planning.contest import Case
from micro.worker import speed
from micro.worker.messages import ContestCost
from reports import stats
from tests.micro.measuring.conftest import CALL, FIRST, PROBLEM, SECOND, SHORT
from tests.simulated.workers import Scripted

pytestmark = pytest.mark.usefixtures("no_canaries")


def lossy(
    lost: Callable[[int], Sequence[float]],
    opened: ContestCost = SHORT,
    crews: list[Scripted] | None = None,
    **more: Any,
) -> Measurement:
    """Rounds of two cases, the second 20 % slower, that lose what `lost` says; who took them is one of `crews`."""
    count = len(opened.visits)

    def row(number: int) -> tuple[list[float], list[float], Sequence[float]]:
        wall = [CALL * (1 + 0.2 * i) * (1 + 1e-4 * (number % 3)) for i in range(count)]
        return wall, wall, lost(number)

    cases = more.pop("cases", (FIRST, SECOND))
    scripted: Any = Scripted(cases, opened, row, more.pop("most", 5000))
    if crews is not None:
        crews.append(scripted)
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
    """Nor any share of long visits, or of several threads."""
    assert not lossy(lambda number: [0.01, 0.0099]).rejected.any()
    m = lossy(lambda number: [0.5, 0.5], ContestCost((1, 1), (5e-3, 5e-3), 1e-2))
    assert m.clocks == ("cpu", "cpu") and not m.rejected.any()
    cases = [Case(PROBLEM, name, Setting(threads=2)) for name in ("openblas", "naive")]
    assert not lossy(lambda number: [0.5, 0.5], cases=cases).rejected.any()


def test_rounds_that_are_taken_again_have_no_canaries() -> None:
    """They stand before a look, and where it takes long once more."""
    crews: list[Scripted] = []
    m = lossy(lambda number: [0.02 if number % 3 == 0 else 0.0, 0.0], crews=crews)
    assert m.rejected.any() and crews[0].canaries == 1 < crews[0].looks


def test_long_visits_are_never_rejected_for_what_they_lost_by_the_wall_either() -> None:
    """Where this system tells no waits from losses; a short rival's losses reject."""
    mixed = ContestCost((1, 1), (5e-3, CALL), 1e-2, queues=False)
    m = lossy(lambda number: [0.5, 0.0], mixed)
    assert m.clocks == ("wall", "wall") and not m.rejected.any()
    m = lossy(lambda number: [0.0, 0.5 if number < 2 else 0.0], mixed)
    assert m.rejected.tolist()[:3] == [True, True, False]


@pytest.mark.parametrize(("kept", "verdict"), [(stats.FEWEST, "slower"), (stats.FEWEST - 1, "unresolved")])
def test_too_few_accepted_rounds_have_no_verdict(monkeypatch: pytest.MonkeyPatch, kept: int, verdict: str) -> None:
    """Fifteen rounds and then no more: every look after the first is empty-handed."""
    monkeypatch.setattr("micro.measuring.rounds.OVERRUN", 0.0)
    m = lossy(lambda number: [0.0 if number < kept else 0.02, 0.0], seconds=15.5 * SHORT.round)
    assert len(m.times) == 15
    assert int((~m.rejected).sum()) == kept
    assert int(m.accepted.sum()) == int(m.timed.sum()) == len(m.logs(0, 1)) == kept
    assert m.judgments[0, 1].verdict == verdict


def test_a_machine_that_is_never_quiet_gets_times_and_no_verdict() -> None:
    m = lossy(lambda number: [0.5, 0.5], seconds=0.02)
    assert m.rejected.all()
    assert not m.accepted.any() and m.timed.all()
    assert (m.judgments[0, 1].verdict, m.judgments[0, 1].shown) == ("unresolved", None)
    assert len(lossy(lambda number: [0.5, 0.5], rounds=8, seconds=0.02, most=100).times) >= 8


def history(name: str, seen: Sequence[float]) -> canary_history.History:
    """An environment in which the canary `name` took so long."""
    for took in seen:  # a value a command
        known = canary_history.History("test")
        if not known.slow({name: took}):
            known.remember({name: took})
        known.save()
    return canary_history.History("test")


FMA, READ = "fma/isa:avx2", f"stream/kind:read/size:{speed.SMALL}"
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


def test_the_past_is_kept_and_bounded(own_state: Path) -> None:
    """A short one says nothing, and a host that always varies is not called slow."""
    assert history(FMA, [1e-5] * 7).slow({FMA: 1e-4}) is None
    history(FMA, [1e-5] * 100)
    assert canary_history.History("test").slow({FMA: 1e-4}) is not None
    assert canary_history.History("another").slow({FMA: 1e-4}) is None
    (file,) = (own_state / "canary").iterdir()
    assert file.read_text().count("1e-05") == canary_history.HISTORY
    file.unlink()
    assert history(FMA, [1e-5, 1.1e-5] * 8).slow({FMA: 1.2e-5}) is None


@pytest.mark.parametrize("text", ["junk", "[1, 2]", '{"fma/isa:avx2": 5}'])
def test_a_damaged_past_is_forgotten(own_state: Path, text: str) -> None:
    (own_state / "canary").mkdir(parents=True)
    (own_state / "canary" / "test.json").write_text(text)
    assert canary_history.History("test").slow({FMA: 1e-4}) is None
