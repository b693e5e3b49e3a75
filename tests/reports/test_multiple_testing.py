"""Many verdicts in one run: Holm's procedure against its definition, who takes part, and what is said."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from reports import multiple_testing, stats
from reports.record import Comparison
from tests.reports.test_table import COMPARED


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


def test_some_stand_and_some_fall() -> None:
    assert multiple_testing.kept([verdict(x) for x in (0.026, 0.01, 1e-9, 0.3)]) == [False, True, True, False]


def test_shared_errors_and_older_files_take_no_part() -> None:
    others = [verdict(1e-9, kind=stats.PROCESSES), verdict(1e-9, kind=stats.RUNS), verdict(None, kind=None)]
    assert multiple_testing.kept(others) == [False] * 3
    assert multiple_testing.sentence([*others, verdict(1e-9)]) is None
    assert multiple_testing.kept([*others, *[verdict(0.02)] * 2]) == [False] * 3 + [True] * 2  # of two, not of five
    assert multiple_testing.kept([verdict(1e-9)]) == [False]


def test_unresolved_is_no_verdict_to_keep_but_one_of_the_run() -> None:
    assert multiple_testing.kept([verdict(0.001, "unresolved"), verdict(1e-9, kind=stats.GENERATIONS)]) == [False, True]


def test_how_many_to_expect_wrong() -> None:
    said = multiple_testing.sentence([verdict(0.001)] * 30)
    assert said is not None and "30 comparisons" in said and "expect up to 0.3 wrong" in said
    assert multiple_testing.sentence([verdict(0.001)]) is None


def test_one_run_of_twenty_marks_a_wrong_verdict() -> None:
    """30 true ratios on the margin: whatever is marked is wrong."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        judged = [stats.judge(0.01 * rng.standard_normal(64) + np.log(1.01), 0.01, last_only=True) for _ in range(30)]
        wrong += any(multiple_testing.kept([verdict(x.p, x.verdict) for x in judged]))
    assert wrong / 300 <= 0.07
