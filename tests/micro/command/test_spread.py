"""What runs of the same pairs say of the next one, on runs made by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from micro.command import spread
from micro.command.spread import PairFigures, Runs
from micro.contests import rivals
from reports import next_run as paths
from reports import stats
from reports.next_run import Spread
from tests import build
from tests.conftest import load

ROOT = Path(__file__).parents[3]


def runs(ratios: Sequence[float], error: float = 0.001, name: str = "a", **changes: Any) -> Runs:
    z = 1.959964
    made = (stats.Interval(x, x * math.exp(-z * error), x * math.exp(z * error), 0.0) for x in ratios)
    return replace(Runs("wall", name, False, tuple(made)), **changes)


def scattered(sd: float, own: float, count: int = 20, seed: int = 1, **changes: Any) -> Runs:
    """Runs that lie `sd` apart beyond their own error."""
    rng = np.random.default_rng(seed)
    return runs(np.exp(0.3 + rng.normal(0, math.hypot(sd, own), count)).tolist(), own, f"pair {seed}", **changes)


def test_an_interval_is_held_against_the_mean_of_the_other_runs() -> None:
    """Against the mean with itself in it the run that is far off would come nearer."""
    one = runs([1.0, 1.0, 1.0, 1.0, 1.006], error=0.00255)
    assert one.holding == 4
    assert one.intervals[-1].low < math.exp(np.mean(one.logs)), "with itself it would have held it"


@pytest.mark.parametrize(("between", "own"), [(0.02, 0.001), (0.003, 0.003), (0.0, 0.01)])
def test_the_spread_is_what_lies_beyond_the_intervals(between: float, own: float) -> None:
    found = spread.between([scattered(between, own, 400, seed) for seed in range(5)])
    assert found["wall"].sd == pytest.approx(between, abs=0.15 * math.hypot(between, own))
    assert found["wall"].degrees == 5 * 399


def test_a_pair_of_wide_intervals_hides_nothing_of_the_others() -> None:
    """Whose runs lie three of their errors apart."""
    pairs = [scattered(0.003, 0.001, 20, seed) for seed in range(4)] + [scattered(0.0, 0.1, 20, 9)]
    assert spread.between(pairs)["wall"].sd == pytest.approx(0.003, abs=0.0008)


def test_runs_without_any_error_or_spread_have_none() -> None:
    assert spread.between([runs([1.0] * 5, 0.0), runs([2.0] * 5, 0.0)])["wall"].sd == 0.0
    assert spread.between([runs([1.0, 1.01] * 5, 0.0)])["wall"].sd == pytest.approx(0.00524, abs=1e-4)


def test_twins_and_single_runs_tell_nothing_of_rivals() -> None:
    """Two runs of one pair are too few: one degree of freedom, 12.7 times its spread."""
    twins, single = scattered(0.1, 0.001, twin=True), scattered(0.1, 0.001, 1)
    assert spread.between([twins, single]) == spread.between([scattered(0.01, 0.001, 2)]) == {}
    assert spread.between([scattered(0.01, 0.001), twins, single])["wall"].degrees == 19
    assert spread.between([scattered(0.01, 0.001, 2, 1), scattered(0.01, 0.001, 2, 2)])["wall"].degrees == 2


@pytest.mark.parametrize(("between", "own"), [(0.02, 0.001), (0.003, 0.003), (0.001, 0.01)])
def test_of_alike_pairs_the_next_run_lies_inside(between: float, own: float) -> None:
    """Simulated: 200 pairs of 20 runs."""
    made = [scattered(between, own, 20, seed) for seed in range(200)]
    known = spread.between(made)
    found = spread.figures(made, known)
    share = sum(one.inside for one in found) / sum(one.runs - 1 for one in found)
    assert 0.93 < share < 0.98
    assert not spread.certainly_below(found)
    assert np.median([one.width for one in found]) < spread.WIDEST


def test_one_pair_that_is_another_each_time_is_named() -> None:
    """Its spread is twenty times that of 30 others, which share a path with it."""
    made = [scattered(0.001, 0.0005, 20, seed) for seed in range(30)] + [scattered(0.02, 0.0005, 20, 99)]
    known = {"wall": Spread(0.001, 500.0)}
    (below,) = spread.certainly_below(spread.figures(made, known))
    assert below.pair == "pair 99"


def test_chance_in_forty_pairs_is_none() -> None:
    """15 of 19 would be certain of one pair alone, p = 0.04; not of the worst of forty."""
    fine = PairFigures("wall", "fine", False, 20, 0, 20, 18, 0.01, 4.0)
    odd = replace(fine, pair="odd", inside=15)
    assert spread.certainly_below([odd]) == [odd]
    assert spread.certainly_below([odd, *[fine] * 39]) == []


def test_rows_for_tables() -> None:
    made = [scattered(0.01, 0.001, 20, 1), scattered(0.01, 0.001, 20, 2), scattered(0.01, 0.001, 20, 3, twin=True)]
    known = spread.between(made)
    (row,) = spread.rows(spread.figures(made, known), known)
    assert (row["path"], row["runs"], row["steps"], row["degrees"]) == ("wall", 40, 38, 38)
    assert len(row["pairs"]) == 3 and json.loads(json.dumps(row)) == row


def test_what_is_promised_of_rivals() -> None:
    def judged(made: list[Runs], why: str | None = None) -> list[str]:
        known = spread.between(made)
        return [x.judgment for x in spread.promises(made, spread.figures(made, known), known, why)]

    made = [scattered(0.01, 0.004, 20, seed) for seed in range(40)]
    assert judged(made) == ["", "yes", "yes", "yes"]
    assert set(judged(made, "noisy")[1:]) == {"not judged: noisy"}
    few = judged([scattered(0.01, 0.004, 3, seed) for seed in range(10)])
    assert all(word.startswith("not judged: fewer than 5 runs") for word in few[1:])


def test_pairs_of_few_runs_are_left_out_of_what_is_judged() -> None:
    made = [scattered(0.01, 0.004, 20, seed) for seed in range(40)] + [scattered(0.5, 0.004, 2, 99)]
    known = {"wall": spread.between(made[:40])["wall"]}
    told = [*spread.promises(made, spread.figures(made, known), known, None)]
    assert [one.judgment for one in told[1:]] == ["yes", "yes", "yes"]


def test_the_page_has_a_row_for_each_path_its_worst_pair_in_it() -> None:
    made = [scattered(0.01, 0.001, 20, seed) for seed in range(5)]
    known = spread.between(made)
    rows = spread.rows(spread.figures(made, known), known)
    head, _, row = [*load(ROOT / "docs/generate.py")._paths(rows)][1:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    worst = rows[0]["pairs"][0]
    assert cells[:2] == ["wall", "100 of 5 pairs"] and cells[3] == f"{worst['pair']}: {worst['holding']} of 20"
    assert head.count("|") == row.count("|")


# Rivals


def test_every_path_has_five_rivals() -> None:
    every = rivals.rivals(2, True)
    by_path = {name: [one for one in every if one.path == name and not one.twin] for name in rivals.SECONDS}
    assert {len(found) for found in by_path.values()} == {5}
    assert {one.path for one in every if one.twin} == set(rivals.SECONDS) - {paths.PYTHON}
    names = [one.contest(0).name for one in every]
    assert len(set(names)) == len(names)
    assert paths.THREADS not in {one.path for one in rivals.rivals(1, True)}


def test_the_quick_one_is_a_part() -> None:
    quick, every = rivals.rivals(2, False), rivals.rivals(2, True)
    assert set(quick) < set(every) and not any(one.twin for one in quick)
    assert {name: sum(one.path == name for one in quick) for name in rivals.QUICK} == rivals.QUICK


@pytest.mark.parametrize(
    ("path", "took", "counts"),
    [
        (paths.WALL, ("wall",), True),
        (paths.WALL, ("wall", "one look"), False),
        (paths.CPU, ("wall",), False),
        (paths.ONE_LOOK, ("cpu", "one look"), True),
        (paths.LOCKSTEP, ("wall", "lockstep"), True),
    ],
)
def test_a_run_that_took_another_path_does_not_count(path: str, took: tuple[str, ...], counts: bool) -> None:
    one = next(x for x in rivals.rivals(2, True) if x.path == path)
    assert one.took(took) == counts
    told = build.comparison(low=1.4, high=1.6, path=took)
    known: Any = {one.contest(0).name: SimpleNamespace(comparisons=(told,))}
    (found,) = spread.runs([one], 1, known)
    assert (len(found.intervals), found.strayed) == ((1, 0) if counts else (0, 1))
