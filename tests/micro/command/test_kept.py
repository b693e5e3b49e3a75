"""The share of a budget that is kept for what a question asks for after its first contests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices.base import Limits
from kernels.ops.gemm.problem import Gemm
from micro.command import session
from micro.planning.contest import Budget, Case, Contest
from micro.planning.options import Outputs
from micro.planning.request import Plan
from reports import record
from reports.record import Environment, Run

LIMITS = {"cpu": Limits(memory=1 << 30, cores=1, caches=(1 << 20,), flops=1e9, bandwidth=1e9)}


def contest(name: str) -> Contest:
    return Contest(name, "?", "variant", tuple(Case(Gemm(512, 512, 512), x) for x in ("numpy", "openblas")))


@dataclass
class Measured:
    """Stands for the machine: how many seconds each call of `_measure` had, and takes all of them and `over` more."""

    over: float = 0.0
    run: Run = field(default_factory=lambda: Run(Environment("0", {}, {}, "", "")))
    path: None = None
    had: list[tuple[tuple[str, ...], float]] = field(default_factory=list)

    def measure(self, at: Any, contests: Sequence[Contest], budget: Budget, count: int, leaves: bool = False) -> float:
        self.had.append((tuple(x.name for x in contests), budget.seconds))
        done = tuple(record.Contest(x.name, x.question, x.differs, (), ()) for x in contests)
        self.run = Run(self.run.environment, (*self.run.contests, *done))
        return -self.over


def again(run: Run) -> list[Contest]:
    """After the first contest a second; not after that."""
    return [contest("second")] if run.contests else []


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[tuple[str, ...], float]]]:
    def measure(kept: float, over: float = 0.0) -> list[tuple[tuple[str, ...], float]]:
        file = Measured(over)
        monkeypatch.setattr(session, "_measure", file.measure)
        plan = Plan(
            "x",
            (contest("first"),),
            Budget(10.0),
            ("cpu",),
            frozenset(),
            "time",
            Outputs(quiet=True),
            refine=again,
            kept=kept,
        )
        at: Any = SimpleNamespace(
            file=file, progress=SimpleNamespace(contests=1), runner=SimpleNamespace(limits=LIMITS)
        )
        session.measure_plan(at, plan)
        return file.had

    return measure


def test_what_is_kept_is_there_for_the_second(measure: Callable[..., Any]) -> None:
    assert measure(0.4) == [(("first",), 6.0), (("second",), 4.0)]


def test_a_first_that_takes_longer_takes_it_from_the_second_which_is_measured_all_the_same(
    measure: Callable[..., Any],
) -> None:
    assert measure(0.4, over=1.0) == [(("first",), 6.0), (("second",), 3.0)]
    assert measure(0.4, over=9.0) == [(("first",), 6.0), (("second",), 0.0)]


def test_without_it_the_second_needs_seconds_that_are_left(measure: Callable[..., Any]) -> None:
    assert measure(0.0) == [(("first",), 10.0)]
