"""Verdicts from several processes and families of them: how often they are wrong, what they find, what they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats as known

from reports import multiple_testing, stats
from reports.record import Comparison
from reports.stats import across, between
from tests.reports.test_table import COMPARED

PROCESSES, FAMILY, RUNS = 13, 30, 400
SPREAD = 0.012  # of a ratio between processes: half of what a library's packing buffer moved 64³ by
NOTHING = 1e-9  # a margin that forgives nothing, so that it is the interval that decides

Draws = Callable[[np.random.Generator, tuple[int, ...]], Any]


def states(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Either process of a pair is in one of two states, as a packing buffer's place makes them."""
    return 2.0 * (rng.integers(0, 2, shape) - rng.integers(0, 2, shape)) + 0.4 * rng.standard_normal(shape)


NOISE: dict[str, Draws] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Student t(3)": lambda rng, shape: rng.standard_t(3, shape),
    "two states of a process": states,
}


@pytest.mark.parametrize(
    ("kind", "margin", "most"), [*((kind, NOTHING, 0.02) for kind in NOISE), ("Student t(3)", 0.01, 0.0)]
)
def test_a_gate_over_identical_code_is_hardly_ever_wrong(kind: str, margin: float, most: float) -> None:
    """Of 400 gates over 30 comparisons each, those in which any verdict says that something changed."""
    rng = np.random.default_rng(12)
    x = SPREAD * NOISE[kind](rng, (RUNS, FAMILY, PROCESSES))
    wrong = sum(any(across(pairs, margin, FAMILY).verdict in ("slower", "faster") for pairs in gate) for gate in x)
    assert wrong <= most * RUNS


def test_without_sharing_the_error_a_gate_would_be_wrong_often() -> None:
    """That the simulation above can fail at all: the same gates, each verdict as if it were alone."""
    x = SPREAD * NOISE["normal"](np.random.default_rng(12), (RUNS // 4, FAMILY, PROCESSES))
    wrong = sum(any(across(pairs, NOTHING, 1).verdict != "unresolved" for pairs in gate) for gate in x)
    assert wrong > 0.1 * RUNS / 4


@pytest.mark.parametrize(("ratio", "verdict"), [(1.05, "slower"), (0.95, "faster")])
def test_five_per_cent_are_found(ratio: float, verdict: str) -> None:
    x = math.log(ratio) + SPREAD * np.random.default_rng(3).standard_normal((RUNS, PROCESSES))
    found = [across(pairs, 0.01, FAMILY).verdict for pairs in x]
    assert found.count(verdict) >= 0.9 * RUNS
    assert set(found) <= {verdict, "unresolved"}


def test_the_interval_shown_holds_as_often_as_it_says() -> None:
    x = SPREAD * np.random.default_rng(4).standard_normal((1000, PROCESSES))
    held = 0
    for pairs in x:
        shown = across(pairs, 0.01, FAMILY).shown
        assert shown is not None
        held += shown.low <= 1.0 <= shown.high
    assert 0.93 <= held / len(x) <= 0.97


def test_a_family_widens_the_verdict_and_not_the_interval_shown() -> None:
    x = 0.025 + SPREAD * np.random.default_rng(5).standard_normal(PROCESSES)
    alone, one_of_many = across(x, 0.005, 1), across(x, 0.005, 1000)
    assert alone.shown == one_of_many.shown == stats.interval(x, 0.05, 0.125, independent=True)
    assert alone.shown == across(np.sort(x), 0.005, 1).shown, "processes have no order"
    assert (alone.verdict, one_of_many.verdict) == ("slower", "unresolved")


def test_verdict_is_that_of_its_share_of_the_error() -> None:
    """Of rising ratios, each is called slower where the 1 − 0.01/30 interval lies above the margin."""
    noise = SPREAD * np.random.default_rng(6).standard_normal(PROCESSES)
    verdicts = set()
    for center in np.linspace(0.0, 0.06, 60):
        strict = stats.interval(center + noise, 0.01 / FAMILY, 0.125, independent=True)
        assert strict is not None
        verdict = across(center + noise, 0.01, FAMILY).verdict
        assert (verdict == "slower") == (strict.low > 1.01)
        verdicts.add(verdict)
    assert verdicts == {"slower", "unresolved"}


@pytest.mark.parametrize("n", range(6))
def test_too_few_processes_have_no_verdict(n: int) -> None:
    found = across(np.full(n, 0.5), 0.01, 1)
    assert (found.shown, found.verdict) == (None, "unresolved")
    assert found.reason == f"{n} processes, an interval needs 6"


# Two groups that were not paired


@pytest.mark.parametrize(("m", "n"), [(5, 5), (5, 13), (13, 6)])
@pytest.mark.parametrize("spreads", [(0.01, 0.01), (0.001, 0.03)])
def test_between_is_welch(m: int, n: int, spreads: tuple[float, float]) -> None:
    rng = np.random.default_rng(m + n)
    first = -13.0 + spreads[0] * rng.standard_normal(m)
    second = -12.9 + spreads[1] * rng.standard_normal(n)
    found = between(first.tolist(), second.tolist(), 0.01, 1)
    assert found.shown is not None
    test = known.ttest_ind(second, first, equal_var=False)
    shown = test.confidence_interval(0.95)
    assert (found.shown.low, found.shown.high) == pytest.approx((math.exp(shown.low), math.exp(shown.high)))
    assert found.shown.center == pytest.approx(math.exp(second.mean() - first.mean()))
    for family in (1, 10, 1000):
        low = math.exp(test.confidence_interval(1 - 0.01 / family).low)
        judged = between(first.tolist(), second.tolist(), low - 1 - 1e-6, family) if low > 1 else None
        beyond = between(first.tolist(), second.tolist(), max(low - 1, 0) + 1e-6, family)
        assert judged is None or judged.verdict == "slower"
        assert beyond.verdict != "slower"
        assert beyond.shown == found.shown


@pytest.mark.parametrize(("second", "verdict"), [(0.0, "same"), (0.5, "slower"), (-0.5, "faster")])
def test_groups_without_any_spread_have_a_width_of_zero(second: float, verdict: str) -> None:
    found = between([0.0] * 5, [second] * 5, 0.01, 30)
    assert found.verdict == verdict
    assert found.shown is not None and found.shown.half == 0.0


def verdict(p: float | None, word: str = "slower", kind: str | None = stats.ROUNDS) -> Comparison:
    return replace(COMPARED, verdict=word, interval=kind, p=p)


def closed(p: list[float]) -> list[bool]:
    """Holm's, by closed testing: a hypothesis falls where Bonferroni rejects every set that holds it."""
    sets = [chosen for size in range(1, len(p) + 1) for chosen in combinations(range(len(p)), size)]
    rejected = {chosen: min(p[i] for i in chosen) <= multiple_testing.TOGETHER / len(chosen) for chosen in sets}
    return [all(hit for chosen, hit in rejected.items() if i in chosen) for i in range(len(p))]


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_bonferroni_closed(seed: int) -> None:
    p = [float(x) for x in np.random.default_rng(seed).uniform(0, 1, 5) ** 4]
    assert multiple_testing.kept([verdict(x) for x in p]) == closed(p)


def test_what_is_kept_of_many() -> None:
    """Shared errors and older files take no part; unresolved is no verdict to keep but one of the run."""
    kept = multiple_testing.kept
    assert kept([verdict(x) for x in (0.026, 0.01, 1e-9, 0.3)]) == [False, True, True, False]
    assert kept([verdict(0.001, "unresolved"), verdict(1e-9, kind=stats.GENERATIONS)]) == [False, True]
    others = [verdict(1e-9, kind=stats.PROCESSES), verdict(1e-9, kind=stats.RUNS), verdict(None, kind=None)]
    assert kept(others) == [False] * 3
    assert kept([*others, *[verdict(0.02)] * 2]) == [False] * 3 + [True] * 2  # of two, not of five
    assert kept([verdict(1e-9)]) == [False]
    assert multiple_testing.sentence([*others, verdict(1e-9)]) is multiple_testing.sentence([verdict(0.001)]) is None
    said = multiple_testing.sentence([verdict(0.001)] * 30)
    assert said is not None and "30 comparisons" in said and "expect up to 0.3 wrong" in said


def test_one_run_of_twenty_marks_a_wrong_verdict() -> None:
    """30 true ratios on the margin: whatever is marked is wrong."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        judged = [stats.judge(0.01 * rng.standard_normal(64) + np.log(1.01), 0.01, last_only=True) for _ in range(30)]
        wrong += any(multiple_testing.kept([verdict(x.p, x.verdict) for x in judged]))
    assert wrong / 300 <= 0.07
