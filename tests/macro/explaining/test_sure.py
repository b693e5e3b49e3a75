"""How often a cause or cell of two equal steps is named, and one of unequal ones: many runs at once, in scripted
noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from macro.explaining import certain
from macro.explaining.certain import ERROR, Seconds
from tests.reports import coverage

CAUSES, EACH, ROUNDS = 8, 5, 8
CELLS = CAUSES * EACH
BETWEEN = (0.0, 1.0, 2.0, 3.0)  # what processes differ by, in standard errors of the mean of one's rounds
OWN = certain.CELLS / CELLS  # of a cell by itself
KEYS = [((f"row {i % EACH}",), f"cause {i // EACH}") for i in range(CELLS)]


def differ(x: Any, processes: int, error: float) -> Any:
    """Of many at once, [many, processes, rounds]: whether zero is outside the interval."""
    found = coverage.generations(x, 0.0) if processes > 1 else coverage.estimates(x[:, 0], 0.0)
    return np.abs(found.center) > found.half(error)


def named(processes: int, between: float, runs: int, shift: float = 0.0) -> tuple[Any, Any]:
    """Runs × causes and runs × cells: which are certain; all cells differ by `shift`, in the unit of `between`."""
    x = coverage.processes(processes, ROUNDS, between, runs * CELLS) + shift / math.sqrt(ROUNDS)
    whole = x.reshape(runs * CAUSES, EACH, *x.shape[1:]).sum(axis=1)
    causes = differ(whole, processes, ERROR["cause"] / CAUSES).reshape(runs, CAUSES)
    inside = differ(x, processes, ERROR["cause"] / CAUSES / EACH + OWN).reshape(runs, CELLS)
    alone = differ(x, processes, OWN).reshape(runs, CELLS)
    return causes, alone | (inside & np.repeat(causes, EACH, axis=1))


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_what_is_certain_is_as_in_many_runs_at_once(processes: int) -> None:
    """The suite's own tests, of one run."""
    x = coverage.processes(processes, ROUNDS, 1.0, CELLS) + np.linspace(0, 9, CELLS)[:, None, None]
    means = [[1.0] * CELLS] * 2
    seconds = Seconds(KEYS, means, [x[:, i].T for i in range(processes)], 0.5)
    causes = certain.bars(seconds, {}, "cause")
    whole = x.reshape(CAUSES, EACH, processes, ROUNDS).sum(axis=1)
    want = differ(whole, processes, ERROR["cause"] / CAUSES)
    assert {bar.name: bar.sure for bar in causes} == {f"cause {i}": bool(want[i]) for i in range(CAUSES)}
    errors = certain.errors(seconds, causes)
    assert errors == [OWN + (ERROR["cause"] / CAUSES / EACH if want[i // EACH] else 0.0) for i in range(CELLS)]
    inside, alone = (differ(x, processes, error) for error in (ERROR["cause"] / CAUSES / EACH + OWN, OWN))
    for i, error in enumerate(errors):
        own = certain.differs(certain.estimate([seconds.differences[p][:, i] for p in range(processes)]), error)
        assert own == (inside[i] if want[i // EACH] else alone[i])


def test_one_row_that_differs_by_much_is_certain_in_a_noisy_cause() -> None:
    """Its cause is not; of the others of it none is."""
    noise = np.random.default_rng(3).normal(size=(ROUNDS, CELLS)) * 40
    noise[:, 0] = 30 + np.random.default_rng(4).normal(size=ROUNDS) * 0.1
    seconds = Seconds(KEYS, [[1.0] * CELLS] * 2, [noise], 0.5)
    causes = certain.bars(seconds, {}, "cause")
    assert not any(bar.sure for bar in causes)
    sure = [
        certain.differs(certain.estimate([noise[:, i]]), error)
        for i, error in enumerate(certain.errors(seconds, causes))
    ]
    assert sure == [True] + [False] * (CELLS - 1)


def test_what_is_too_small_for_a_word_costs_the_others_nothing() -> None:
    rounds = np.random.default_rng(1).normal(size=(ROUNDS, CELLS))
    means = [[1.0 if cause == "cause 0" else 0.001 for _, cause in KEYS]] * 2
    seconds = Seconds(KEYS, means, [rounds + 50], 0.5)
    causes = certain.bars(seconds, {}, "cause")
    assert [bar.name for bar in causes if bar.sure] == ["cause 0"]
    each = ERROR["cause"] / EACH + certain.CELLS / EACH
    assert certain.errors(seconds, causes) == pytest.approx([each] * EACH + [0.0] * (CELLS - EACH))


def test_the_parts_of_the_error_are_one_in_twenty() -> None:
    assert sum(ERROR.values()) + certain.CELLS == pytest.approx(0.05)


@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("between", BETWEEN)
def test_of_two_equal_steps_some_cause_is_named_at_most_once_in_twenty_runs(processes: int, between: float) -> None:
    causes, cells = named(processes, between, 300)
    assert (causes.any(axis=1) | cells.any(axis=1)).mean() <= 0.05


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("shift", [10.0, 20.0, 40.0])
def test_five_processes_name_what_one_does(between: float, shift: float) -> None:
    for five, one in zip(named(5, between, 100, shift), named(1, between, 100, shift), strict=True):
        assert five.mean() >= one.mean()


def test_a_single_round_names_nothing() -> None:
    assert not certain.differs(certain.estimate([np.array([1.0])]), 0.01)
