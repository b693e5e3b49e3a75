"""Steps that grow or vary, by a trend test and by the middle half."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from macro.explaining import trend
from macro.watching.recording import Event, Watched


def watched(*blocks: float, noise: float = 0.0, steps: int = 5) -> Watched:
    """Return a process with blocks of these seconds a step, each twenty steps after the one before."""
    order = random.Random(1)
    plain = [[x + order.uniform(-noise, noise) for _ in range(steps)] for x in blocks]
    return Watched(plain=plain, at=[20 * i for i in range(len(blocks))], levels={"P0": list(blocks)})


def test_growth_has_its_slope_and_its_ends() -> None:
    grown = trend.growth(watched(*(0.010 + 0.002 * i for i in range(8)), noise=1e-4))
    assert grown is not None
    assert grown.low <= 1e-4 <= grown.high and grown.slope == pytest.approx(1e-4, rel=0.05)
    assert (grown.first, grown.last) == (pytest.approx(0.010, rel=0.05), pytest.approx(0.024, rel=0.05))
    assert (grown.begin, grown.end) == (0, 140)


@pytest.mark.parametrize(
    "blocks",
    [
        [0.010 + 0.0001 * i for i in range(8)],  # too little
        [0.010, 0.030, 0.012, 0.031, 0.010, 0.033, 0.011, 0.030],  # to and fro
        [0.030 - 0.002 * i for i in range(8)],  # shrinks
        [0.010, 0.020, 0.030],  # too few
    ],
)
def test_what_does_not_grow(blocks: list[float]) -> None:
    assert trend.growth(watched(*blocks)) is None


def test_growth_is_taken_out_around_the_mean() -> None:
    process = watched(0.010, 0.012, 0.014)
    assert trend.without(process, 1e-4).levels["P0"] == pytest.approx([0.012] * 3)
    cells = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    assert trend.level(cells, [0, 10, 20]) == pytest.approx(np.array([[2.0, 5.0]] * 3))


def test_the_phase_that_grows_most() -> None:
    phases = {"forward": np.array([1.0, 1.1, 1.2]), "backward": np.array([1.0, 2.0, 3.0])}
    assert trend.where(phases, [0, 10, 20]) == ("backward", pytest.approx(0.1))


def test_steps_that_vary_have_their_middle_half_and_operations() -> None:
    events = [Event("aten::mm", start, start + 1, 1, -1, 1, 0) for start in (5, 6, 15)]
    process: Any = watched(*[0.010, 0.020, 0.030] * 4)
    process.events, process.steps = events, [(0, 10, 0.0, 0.0), (10, 20, 0.0, 0.0)]
    spread = trend.spread(process)
    assert spread is not None
    assert (spread.low, spread.high, spread.fewest, spread.most) == (0.010, 0.030, 1, 2)
    assert trend.spread(watched(*[0.010] * 6, noise=1e-3)) is None
