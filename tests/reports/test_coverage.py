"""Coverage of intervals and error rates of verdicts on scripted noise, as docs/statistics.md states them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reports import slow, stats
from tests.reports import coverage

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
