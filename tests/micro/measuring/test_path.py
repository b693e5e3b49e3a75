"""By which path a comparison was timed, on rounds made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.measuring.results import path
from micro.measuring.rounds import Goal
from micro.planning.contest import Case
from micro.worker.messages import ContestCost

PROBLEM = Gemm(8, 8, 8)
LIBRARY, TWO = Case(PROBLEM, "openblas"), Case(PROBLEM, "openblas", Setting(threads=2))
SPREAD, ALIKE = np.arange(16).reshape(8, 2) * 64, np.full((8, 2), 128)


def taken(clocks: tuple[str, str], places: Any) -> Any:
    cost = ContestCost((1, 1), (1e-3, 1e-3), 0.01)
    return SimpleNamespace(clocks=clocks, opened=cost, look=SimpleNamespace(places=places))


@pytest.mark.parametrize(
    ("cases", "clocks", "places", "goal", "words"),
    [
        ((LIBRARY, LIBRARY), ("wall", "wall"), SPREAD, Goal(1.0, 0.01, 0.01), ("wall",)),
        ((LIBRARY, LIBRARY), ("cpu", "cpu"), SPREAD, Goal(1.0, 0.01, 0.01), ("cpu",)),
        ((LIBRARY, LIBRARY), ("cpu", "cpu"), SPREAD, Goal(0.63, 0.01, 0.01), ("cpu", "one look")),
        ((LIBRARY, LIBRARY), ("cpu", "cpu"), SPREAD, Goal(9.0, 0.01, 0.01, rounds=8), ("cpu", "one look")),
        ((LIBRARY, LIBRARY), ("cpu", "cpu"), ALIKE, Goal(1.0, 0.01, 0.01), ("cpu", "fixed placement")),
        ((LIBRARY, LIBRARY), ("wall", "wall"), ALIKE[:1], Goal(1.0, 0.01, 0.01), ("wall",)),
        ((LIBRARY, Case(PROBLEM, "numpy")), ("wall", "wall"), SPREAD, Goal(1.0, 0.01, 0.01), ("wall", "python")),
        ((TWO, TWO), ("wall", "wall"), SPREAD, Goal(1.0, 0.01, 0.01), ("wall", "threads")),
        ((LIBRARY, TWO), ("wall", "wall"), SPREAD, Goal(1.0, 0.01, 0.01), ("wall", "threads", "lockstep")),
        (
            (LIBRARY, Case(PROBLEM, "openblas", Setting(heap="keep"))),
            ("wall", "wall"),
            SPREAD,
            Goal(1.0, 0.01, 0.01),
            ("wall", "lockstep"),
        ),
    ],
)
def test_path(
    cases: tuple[Case, Case], clocks: tuple[str, str], places: Any, goal: Goal, words: tuple[str, ...]
) -> None:
    assert path(cases, taken(clocks, places), goal, (0, 1)) == words
