"""Verdicts from several processes, and coverage of intervals on scripted noise, as docs/statistics.md states them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats as known

from reports import multiple_testing, slow, stats
from reports.record import Comparison
from reports.stats import across, between
from tests.reports import coverage
from tests.reports.test_text import COMPARED

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


LATE = stats.LOOKS[stats.LOOKS.index(slow.SEEN) :]  # of a contest whose rounds are cheap


@pytest.mark.parametrize("rounds", [6, 7, 16, 63, 64, 512])
def test_many_series_at_once_are_judged_as_one(rounds: int) -> None:
    x = 0.01 * coverage.noise("two states, dwell 10", 8, rounds)
    found = coverage.estimates(x)
    strict = found.half(0.01)
    for i, row in enumerate(x):
        one = stats.judge(row, 0.01, last_only=True)
        assert one.shown is not None
        assert math.log(one.shown.center) == pytest.approx(found.center[i], abs=1e-12)
        assert math.log(one.shown.high / one.shown.center) == pytest.approx(found.half(0.05)[i])
        assert one.verdict == coverage.verdicts(found.center[[i]], strict[[i]])[0]


@pytest.mark.parametrize("count", [2, 5])
def test_many_groups_at_once_are_judged_as_one(count: int) -> None:
    x = coverage.processes(count, 9, 1.0, 6)
    found = coverage.generations(x)
    for i, groups in enumerate(x):
        one = stats.generations(list(groups))
        assert (one.center, one.half(0.01)) == pytest.approx((found.center[i], found.half(0.01)[i]), abs=1e-12)


def ended(kind: str, width: float, trials: int, truth: float = 0.0, looks: tuple[int, ...] = LATE) -> coverage.Ends:
    return coverage.contests(coverage.scaled(kind, trials, width), truth, looks)


@pytest.mark.parametrize("kind", coverage.SHORT)
def test_coverage_at_stopping_without_slow_change(kind: str) -> None:
    found = [ended(kind, width, 400, looks=stats.LOOKS).holds.mean() for width in coverage.WIDTHS]
    assert min(found) >= 0.93


@pytest.mark.parametrize("kind", [kind for kind in coverage.NOISE if kind not in coverage.SHORT])
def test_coverage_from_the_rounds_on_that_see_slow_change(kind: str) -> None:
    assert ended(kind, 0.01, 250).holds.mean() >= 0.91


@pytest.mark.slow
@pytest.mark.parametrize("width", coverage.WIDTHS)
@pytest.mark.parametrize("kind", coverage.NOISE)
def test_coverage_of_every_noise(kind: str, width: float) -> None:
    """2,000 contests a cell: all looks where nothing is slow, and those from 512 rounds on everywhere."""
    late = ended(kind, width, 2000)
    assert late.holds.mean() >= (0.94 if kind not in ("10 % slow", "20 % slow", "two states, dwell 50") else 0.92)
    if kind in coverage.SHORT:
        every = ended(kind, width, 2000, looks=stats.LOOKS)
        assert every.holds.mean() >= 0.94


@pytest.mark.parametrize("kind", ["independent", "heavy-tailed"])
@pytest.mark.parametrize("looks", [stats.LOOKS, LATE])
def test_rounds_without_memory_are_not_said_to_wander(kind: str, looks: tuple[int, ...]) -> None:
    assert max(ended(kind, width, 400, looks=looks).wanders.mean() for width in coverage.WIDTHS) <= 0.05


@pytest.mark.parametrize("kind", ["drift", "20 % slow", "two states, dwell 50"])
def test_slow_change_that_is_seen_is_said(kind: str) -> None:
    assert ended(kind, 0.01, 250).wanders.mean() >= 0.9


@pytest.mark.parametrize("first", [0, stats.LOOKS.index(slow.SEEN)])
@pytest.mark.parametrize("kind", ["heavy-tailed", "lag-1 0.3"])
def test_verdicts_at_the_margin_are_wrong_in_one_of_a_hundred(kind: str, first: int) -> None:
    found = ended(kind, 0.01, 1000, math.log1p(coverage.MARGIN), stats.LOOKS[first:])
    assert np.isin(found.verdict, ("slower", "same")).mean() <= 0.015


@pytest.mark.parametrize(("kind", "least"), [("independent", 0.94), ("heavy-tailed", 0.94), ("lag-1 0.5", 0.93)])
@pytest.mark.parametrize("rounds", [8, 12, 20, 63])
def test_coverage_of_one_look_at_few_rounds(kind: str, least: float, rounds: int) -> None:
    """A contest of long calls affords no more."""
    found = coverage.estimates(coverage.noise(kind, 2000, rounds))
    assert (np.abs(found.center) <= found.half(0.05)).mean() >= least


@pytest.mark.parametrize("rounds", [8, 16, 32, 64, 512])
def test_no_interval_is_half_as_wide_again_as_one_that_knows_its_rounds_independent(rounds: int) -> None:
    """On average; of one look."""
    for kind in ("independent", "heavy-tailed"):
        x = coverage.noise(kind, 500, rounds)
        found = coverage.estimates(x)
        (degrees, near), _ = found.forms
        plain = coverage.Estimates(found.center, ((degrees, near),), found.lag1)
        assert found.half(0.05).mean() <= 1.5 * plain.half(0.05).mean()


@pytest.mark.parametrize("kind", ["heavy-tailed", "lag-1 0.3"])
@pytest.mark.parametrize(("generations", "many"), [(3, 8), (5, 8), (3, 20)])
@pytest.mark.parametrize("between", [0.0, 1.0, 1.5, 3.0])
def test_coverage_of_generations(kind: str, generations: int, many: int, between: float) -> None:
    """Whether their processes differ or not: of 95 % and of 99 % intervals, from which verdicts come."""
    found = coverage.generations(coverage.processes(generations, many, between, 4000, kind))
    assert (np.abs(found.center) <= found.half(0.05)).mean() >= 0.94
    assert (np.abs(found.center) <= found.half(0.01)).mean() >= 0.985


@pytest.mark.parametrize(("lag", "least"), [(0.0, 0.93), (0.5, 0.93), (0.9, 0.85)])
def test_a_median_of_rounds_that_hang_together(lag: float, least: float) -> None:
    """128 of them; independent ones would be taken to know it better (0.82 and 0.42)."""
    rng = np.random.default_rng(4)
    x = coverage.autoregressive(rng, lag, rng.standard_normal((400, 128 + coverage.BURN)))
    held = [low <= 0 <= high for _, low, high in map(stats.order_interval, x)]
    assert np.mean(held) >= least
