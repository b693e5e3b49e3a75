"""Ratios of steps: in rounds that both took, and through a third where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from macro.timing import ratios
from reports import stats

ROUNDS = 24


def times(seconds: float, first: int = 0, generations: int = 3, seed: int = 1) -> dict[tuple[int, int], float]:
    noise = np.random.default_rng(seed).normal(0, 0.01, (generations, ROUNDS))
    return {(g, first + n): seconds * float(np.exp(noise[g, n])) for g in range(generations) for n in range(ROUNDS)}


def test_what_met_is_compared_round_by_round() -> None:
    found = ratios.compare([times(1.0), times(1.2, seed=2), times(5.0, seed=3)], 1, 0, 0.01)
    assert found.through is None and found.generations == 3
    assert found.judged.shown is not None and found.judged.shown.center == pytest.approx(1.2, rel=0.01)
    assert found.judged.verdict == "slower"


def test_what_never_met_is_compared_through_what_met_both() -> None:
    shared = {**times(2.0), **times(2.0, ROUNDS, seed=4)}
    stranger = times(9.0, 99)
    found = ratios.compare([times(1.0, seed=5), stranger, shared, times(1.2, ROUNDS, seed=6)], 3, 0, 0.01)
    assert found.through == 2 and found.generations == 3
    assert found.judged.shown is not None and found.judged.verdict == "slower"
    assert found.judged.shown.center == pytest.approx(1.2, rel=0.02)
    assert found.judged.shown.low < 1.2 < found.judged.shown.high


def test_one_generation_in_which_they_met_is_not_all_that_is_known() -> None:
    """Generations of the pair lie 3 % apart: in the one that it shares it looks like a difference."""
    apart = [0.03, -0.03, 0.0]
    shared, first = times(2.0), times(1.0, seed=5)
    second = {(g, ROUNDS * (g > 0) + n): seconds * float(np.exp(apart[g])) for (g, n), seconds in times(1.0).items()}
    shared |= dict.fromkeys(second, 2.0)
    found = ratios.compare([first, shared, second], 2, 0, 0.01)
    assert (found.through, found.generations) == (1, 3)
    assert found.judged.shown is not None and found.judged.shown.low < 1 < found.judged.shown.high
    together = ratios.compare([first, shared, {key: x for key, x in second.items() if key[0] == 0}], 2, 0, 0.01)
    assert together.through is None and together.generations == 1


def test_through_a_third_one_generation_has_the_notes_of_one() -> None:
    first, second = times(1.0, generations=1), times(1.2, ROUNDS, generations=1, seed=2)
    shared = {**times(2.0, generations=1), **times(2.0, ROUNDS, generations=1, seed=4)}
    found = ratios.compare([first, shared, second], 2, 0, 0.01)
    direct = ratios.compare([first, times(1.2, generations=1, seed=2)], 1, 0, 0.01)
    assert found.through == 1
    assert (found.judged.kind, found.judged.notes) == (direct.judged.kind, direct.judged.notes)


def test_without_one_that_met_both_there_is_no_ratio() -> None:
    for others in ([], [times(1.0, 99)]):
        found = ratios.compare([times(1.0), times(1.2, ROUNDS), *others], 1, 0, 0.01)
        assert found.judged.shown is None and found.judged.verdict == "unresolved" and found.through is None


def test_too_few_common_rounds_are_no_reason_to_go_through_a_third() -> None:
    few = {key: x for key, x in times(1.2, seed=2).items() if key[1] < stats.FEWEST - 1}
    found = ratios.compare([times(1.0), few, times(1.0, seed=3)], 1, 0, 0.01)
    assert found.through is None and found.judged.shown is None


@pytest.mark.parametrize(("generations", "apart"), [(1, 0.0), (3, 0.01), (5, 0.01)])
def test_its_interval_holds_the_ratio(generations: int, apart: float) -> None:
    """Simulated: 95 in 100, or more of few generations, which lie `apart`."""
    rng, trials, hits = np.random.default_rng(7), 400, 0
    for _ in range(trials):
        first, second = ([rng.normal(rng.normal(0, apart), 0.01, ROUNDS) for _ in range(generations)] for _ in range(2))
        shown = stats.through(first, second, 0.01).shown
        assert shown is not None
        hits += shown.low <= 1 <= shown.high
    assert hits / trials >= 0.93
