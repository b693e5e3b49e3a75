"""A budget among contests whose rounds are slower than foreseen: who is measured, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices.base import Limits
from kernels.ops.gemm.problem import Gemm
from micro.command import forecast, session
from micro.planning.contest import Budget, Case, Contest
from micro.planning.options import Outputs
from micro.planning.request import Plan
from reports import record
from reports.record import Note, Run
from tests import build
from tests.build import short

LIMITS = {"cpu": Limits(memory=1 << 30, cores=1, caches=(1 << 20,), flops=1e9, bandwidth=1e9)}
NAMES = ("first", "second", "third", "fourth")


def contest(name: str) -> Contest:
    return Contest(name, "?", "variant", tuple(Case(Gemm(512, 512, 512), x) for x in ("numpy", "openblas")))


CONTESTS = tuple(map(contest, NAMES))
LOOK = forecast.first_look(CONTESTS[0], LIMITS)  # seconds foreseen, some 4 s


class Machine:
    """Rounds that take `slower` times what is foreseen: eight where there is time, and `setup` seconds before."""

    limits = LIMITS

    def __init__(self, slower: float, setup: float = 0.0) -> None:
        self.slower, self.setup = slower, setup

    def run(self, asked: Contest, seconds: float, budget: Budget, left: float, *_: object) -> record.Contest:
        round_ = self.slower * LOOK / 8
        rounds = max(1, min(8, int(max(seconds, left) / round_ + 1e-9)))
        names, like = [case.name for case in asked.cases], short(rounds)
        results = tuple(replace(x, name=name) for x, name in zip(like.results, names, strict=False))
        compared = (replace(like.comparisons[0], baseline=names[0], contender=names[1]),)
        took = {"measuring": rounds * round_, "setup": self.setup}
        return build.contest(*results, contest=asked.name, comparisons=() if rounds >= 6 else compared, seconds=took)


class File:
    """Stands for a run file."""

    path = None

    def __init__(self) -> None:
        self.run = build.run()

    def append(self, what: Any) -> None:
        key = "notes" if isinstance(what, Note) else "contests"
        self.run = record.Run(**{**vars(self.run), key: (*getattr(self.run, key), what)})


def measured(seconds: float, machine: Machine, run: Run | None = None) -> tuple[Run, list[str]]:
    """What is in the file after a plan, and the lines that stay on the terminal."""
    file, lines = File(), []
    file.run = run or file.run
    progress = SimpleNamespace(contests=4, begin=lambda title: None, tell=lines.append)
    plan = Plan("x", CONTESTS, Budget(seconds), ("cpu",), frozenset(), "time", Outputs(quiet=True))
    at: Any = SimpleNamespace(file=file, progress=progress, runner=machine)
    session.measure_plan(at, plan)
    return file.run, lines


def said(run: Run) -> list[str]:
    return [sentence for note in run.notes if note.topic == session.LACKS for sentence in note.data["sentences"]]


def test_with_time_for_all_nothing_is_left_out() -> None:
    run, lines = measured(4 * LOOK, Machine(1.0))
    assert [x.contest for x in run.contests] == list(NAMES) and not lines and not run.notes


def test_of_slow_rounds_the_first_contests_have_enough_and_the_others_none() -> None:
    """Twice as slow as foreseen: two of four. The budget that is advised is enough for all."""
    run, _ = measured(4 * LOOK, Machine(2.0))
    assert [x.contest for x in run.contests] == ["first", "second"]
    assert all(len(x.results[0].samples) == 8 for x in run.contests)
    (lacks,) = said(run)
    head, _, rest = lacks.partition(": rerun with --budget ")
    advised = float(rest.partition("s, or with -o FILE --resume")[0])
    assert head == "2 of 4 contests were not reached in time"
    assert 8 * LOOK < advised < 12 * LOOK
    whole, _ = measured(advised, Machine(2.0))
    assert [x.contest for x in whole.contests] == list(NAMES) and not said(whole)


def test_resumed_it_goes_on_with_the_others_and_lacks_nothing_then() -> None:
    begun, _ = measured(4 * LOOK, Machine(2.0))
    run, _ = measured(8 * LOOK, Machine(2.0), begun)
    assert [x.contest for x in run.contests] == list(NAMES)
    assert run.notes[-1].data["sentences"] == []  # and stands for what was said before it


def test_a_budget_for_no_interval_at_all_still_measures_the_first() -> None:
    run, _ = measured(0.4 * LOOK, Machine(1.0))
    assert [x.contest for x in run.contests] == ["first"]
    assert said(run)[1].startswith("1 of 4 contests had too few rounds for a ratio; 3 of 4 contests were not reached")
    assert "by 3 rounds, not certain: openblas 127 ms, numpy 138 ms" in said(run)[0]


def test_a_trifle_is_measured_whatever_is_left() -> None:
    assert not forecast.out_of_time(8 / 6 * forecast.TRIFLE, 0.0) and forecast.out_of_time(1.4 * forecast.TRIFLE, 0.0)
    said = forecast.announced(CONTESTS, Budget(60.0))
    assert said.endswith("60 s to measure, about 0 s to prepare and check: 60 s in all")


def test_preparing_that_takes_far_longer_than_foreseen_is_said_once() -> None:
    """Not what is within twice its forecast."""
    assert measured(8 * LOOK, Machine(1.0, 1.0))[1] == []
    (told,) = measured(8 * LOOK, Machine(1.0, 100.0))[1]
    assert "100 s for the first contest: about 0 s for the other 3" in told
    large = Contest("large", "?", "variant", (Case(Gemm(8192, 8192, 8192), "numpy"),))
    for times, is_told in ((1.9, False), (2.1, True)):
        first = build.contest(contest="large", seconds={"setup": times * forecast.preparing([large])})
        assert bool(forecast.corrected(first, [large, contest("second")], 60.0)) == is_told


# The share that is kept for further contests


@dataclass
class Measured:
    """Stands for the machine: how many seconds each call of `_measure` had, and takes all of them and `over` more."""

    over: float = 0.0
    run: Run = field(default_factory=lambda: build.run())
    path: None = None
    had: list[tuple[tuple[str, ...], float]] = field(default_factory=list)

    def measure(self, at: Any, contests: Sequence[Contest], budget: Budget, count: int, leaves: bool = False) -> float:
        self.had.append((tuple(x.name for x in contests), budget.seconds))
        done = tuple(build.contest(contest=x.name) for x in contests)
        self.run = Run(self.run.environment, (*self.run.contests, *done))
        return -self.over


def again(run: Run) -> list[Contest]:
    """After the first contest a second; not after that."""
    return [contest("second")] if run.contests else []


@pytest.mark.parametrize(
    ("kept", "over", "second"), [(0.4, 0.0, 4.0), (0.4, 1.0, 3.0), (0.4, 9.0, 0.0), (0.0, 0.0, None)]
)
def test_the_second_contest_has_what_is_kept_and_left(
    monkeypatch: pytest.MonkeyPatch, kept: float, over: float, second: float | None
) -> None:
    """A first that takes longer takes it from the second, which is measured all the same where seconds are kept."""
    file, more = Measured(over), {"refine": again, "kept": kept}
    monkeypatch.setattr(session, "_measure", file.measure)
    plan = Plan("x", CONTESTS[:1], Budget(10.0), ("cpu",), frozenset(), "time", Outputs(quiet=True), **more)
    runner = SimpleNamespace(limits=LIMITS)
    at: Any = SimpleNamespace(file=file, progress=SimpleNamespace(contests=1), runner=runner)
    session.measure_plan(at, plan)
    assert file.had == [(("first",), 10.0 * (1 - kept)), *([(("second",), second)] if second is not None else [])]
