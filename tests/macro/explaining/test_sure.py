"""How often a cell of two equal steps is named, and one of unequal ones: many runs at once, in scripted noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from macro.explaining import gap
from tests.reports import coverage

CELLS, ROUNDS = 40, 8
BETWEEN = (0.0, 1.0, 2.0, 3.0)  # what processes differ by, in standard errors of the mean of one's rounds


def named(processes: int, between: float, runs: int, shift: float = 0.0) -> Any:
    """Runs × cells: which are named that differ by `shift`, in the same unit as `between`."""
    x = coverage.processes(processes, ROUNDS, between, runs * CELLS) + shift / math.sqrt(ROUNDS)
    found = coverage.generations(x, 0.0) if processes > 1 else coverage.estimates(x[:, 0], 0.0)
    return (np.abs(found.center) > found.half(gap.FALSE / CELLS)).reshape(runs, CELLS)


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_a_cell_is_named_as_in_many_runs_at_once(processes: int) -> None:
    x = coverage.processes(processes, ROUNDS, 1.0, 20) + 3.0
    found = coverage.generations(x, 0.0) if processes > 1 else coverage.estimates(x[:, 0], 0.0)
    for i, rounds in enumerate(x):
        estimate = gap._estimate(list(rounds))
        assert estimate.center == pytest.approx(rounds.mean())
        assert estimate.half(0.01) == pytest.approx(found.half(0.01)[i])
        assert gap._differs(estimate, CELLS) == (abs(found.center[i]) > found.half(gap.FALSE / CELLS)[i])


@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("between", BETWEEN)
def test_of_two_equal_steps_some_cell_is_named_once_in_twenty_runs(processes: int, between: float) -> None:
    assert named(processes, between, 300).any(axis=1).mean() <= 0.07


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("shift", [10.0, 20.0, 40.0])
def test_five_processes_name_what_one_does(between: float, shift: float) -> None:
    assert named(5, between, 100, shift).mean() >= named(1, between, 100, shift).mean()


def test_a_single_round_names_nothing() -> None:
    assert not gap._differs(gap._estimate([np.array([1.0])]), CELLS)
