"""Figures of the self-test: what pairs of known truth and runs of the same pairs say, on numbers made by hand."""

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

from micro.command import figure, known_pairs, spread
from micro.command.figure import Promise, rate
from micro.command.known_pairs import Pair
from micro.command.spread import PairFigures, Runs
from micro.contests import rivals, selftest
from micro.contests.selftest import Known
from reports import next_run as paths
from reports import record, stats
from reports.next_run import Spread
from tests import build


def pair(kind: str = "identical", verdict: str = "same", **changes: Any) -> Pair:
    return replace(Pair(kind, "64³", verdict, 0.1, True, False), **changes)


def named(found: Sequence[Promise], start: str) -> Promise:
    (one,) = [x for x in found if x.name.startswith(start)]
    return one


def test_contended_pairs_are_no_quiet_ones() -> None:
    """Nor do they excuse anything: those that are left are judged."""
    found = [pair()] * 300 + [pair(verdict="slower", contended=True)] * 100
    made = [*known_pairs.figures(found, False, True, None)]
    assert named(made, "pairs that were quiet").value == "300 of 400"
    assert named(made, selftest.NOT_DIFFERENT).value.startswith("300 of 300")
    nothing = [*known_pairs.figures([pair(contended=True)] * 50, False, True, None)]
    assert named(nothing, selftest.NOT_DIFFERENT).judgment == "not judged: no trials"
    assert figure.exit_code(nothing) == 0
    broken = [*known_pairs.figures([*found, *[pair(verdict="slower")] * 20], False, True, None)]
    assert named(broken, selftest.NOT_DIFFERENT).judgment == "NO"


def pilot(own: float, warning: str = "") -> record.Contest:
    """A second, of which the worker ran so much."""
    case = build.result(warnings=(warning,) if warning else ())
    return build.contest(case, system={"clock": 1.0, "own": own})


def test_the_pilot_decides_before_there_is_a_verdict() -> None:
    """By lost time, or by a canary."""
    assert known_pairs.noisy([pilot(0.85), pilot(0.99)]) is None
    why = known_pairs.noisy([pilot(0.81), pilot(0.95)])
    assert why == "12% of the pilot's time was lost to other processes"
    assert known_pairs.noisy([pilot(1.0), pilot(1.0, "contended: slow host: it took 9% more")]) is not None
    made = [*known_pairs.figures([pair(verdict="slower")] * 300, False, True, why)]
    assert {one.judgment for one in made if one.promised} == {f"not judged: {why}"}


def rounds(spread: float, count: int = 400, outliers: int = 0) -> record.Contest:
    """A second of an identical pair whose log ratios spread so much; some rounds were rejected."""
    rng = np.random.default_rng(1)
    first = np.exp(rng.normal(0, 0.2, count))
    second = first * np.exp(rng.normal(0, spread, count))
    second[:outliers] *= 9
    both = {"rounds": (*range(count),), "rejected": (*range(outliers),)}
    results = (build.result(samples=tuple(x.tolist()), **both) for x in (first, second))
    return build.contest(*results, seconds={"measuring": 1.0})


def known(kind: str, kernel: str) -> Known:
    return Known(kind, kernel, None)  # type: ignore[arg-type]


def test_what_a_kernel_needs_is_by_its_own_accepted_rounds_kind_by_kind() -> None:
    asked = [known("identical", "a"), known("identical", "a"), known("identical", "b"), known("+2 %", "a")]
    needs = known_pairs.needs(asked, [rounds(0.02), rounds(0.02, outliers=100), rounds(0.1), rounds(0.3)])
    for need, width in ((needs["identical"]["a"], 0.02), (needs["identical"]["b"], 0.1), (needs["+2 %"]["a"], 0.3)):
        error = width / 400**0.5
        assert 3 * error < need < 12 * error  # half of an interval of 99.5 %, and one of ten beyond
    assert known_pairs.needs([known("identical", "a")], [pilot(1.0)]) == {}


def test_a_kernel_is_not_asked_for_what_its_rounds_cannot_tell() -> None:
    """What needs 2 % has no room before the margin of +2 %, and enough before that of +5 %."""
    seconds = dict.fromkeys(("identical", "+5 %", "+2 %"), 1.0)
    kernels = {"64³": 0.006, "triad": 0.02, "copy": 0.1}
    needs = {"identical": kernels, "+5 %": kernels, "+2 %": {"64³": 0.03}}
    vague = known_pairs.vague(needs, seconds)
    assert vague == {"identical": ["triad", "copy"], "+5 %": ["copy"], "+2 %": ["64³"]}
    assert known_pairs.vague({"+2 %": {"triad": 0.019}}, dict.fromkeys(seconds, 4.0))["+2 %"] == []
    said = known_pairs.left_out(vague, needs, seconds).value
    assert selftest.SLOWER_5 + ": copy 10 % of the 4 % to the margin are noise" in said
    assert known_pairs.left_out({"identical": []}, needs, seconds).value == "none"


def test_vague_kernels_may_be_unresolved_and_may_not_be_called_different() -> None:
    pairs = [pair()] * 300 + [pair(kernel="copy", verdict="unresolved", seconds=9.0)] * 300
    made = [*known_pairs.figures(pairs, False, True, None, ["copy"])]
    assert named(made, selftest.SAME).value.startswith("300 of 300")
    assert named(made, selftest.NOT_DIFFERENT).value.startswith("600 of 600")
    assert named(made, "seconds a pair").held
    made = [*known_pairs.figures(pairs[300:], False, True, None, ["copy"])]
    assert named(made, "seconds a pair").judgment == "not judged: no pairs"


def test_the_worst_kernel_stands_first() -> None:
    found = [pair()] * 150 + [pair(kernel="copy", holds=number % 4 > 0) for number in range(150)]
    made = [one for one in known_pairs.figures(found, False, True, None) if one.name.startswith("intervals that hold")]
    assert [one.name for one in made] == ["intervals that hold 1, copy, the worst", "intervals that hold 1, 64³"]
    assert [one.judgment for one in made] == ["NO", ""]


def test_beside_spinners_contended_pairs_count() -> None:
    found = [pair(contended=True)] * 300 + [pair("+2 %", "same", contended=True), pair("+5 %", "slower")]
    made = [*known_pairs.figures(found, True, True, None)]
    assert named(made, selftest.NOT_DIFFERENT).judgment == "yes"
    assert named(made, "+2 % missed but marked contended").held


# Whether a promise is held


@pytest.mark.parametrize(
    ("hits", "trials", "least", "word"),
    [
        (750, 750, 0.985, "yes"),
        (746, 750, 0.985, "yes"),  # 4 false alarms: at most 1.36 %
        (745, 750, 0.985, "NO"),  # 5: the interval reaches 1.55 %
        (150, 150, 0.985, "not judged: 150 trials are too few"),
        (140, 150, 0.985, "NO"),  # too few to show it, enough to refute it
        (116, 120, 0.90, "yes"),
        (114, 120, 0.90, "NO"),  # its upper end is far above: that it touches does not help
        (0, 0, 0.90, "not judged: no trials"),
    ],
)
def test_a_rate_is_held_where_its_whole_interval_lies_inside(hits: int, trials: int, least: float, word: str) -> None:
    assert rate("x", hits, trials, least).judgment == word


def test_a_rate_between_two() -> None:
    for hits, word in ((819, "yes"), (806, "NO"), (845, "NO")):  # of 855: 0.958, 0.943, 0.988
        one = rate("x", hits, 855, 0.93, None, 0.98)
        assert (one.judgment, one.promised) == (word, "0.93 to 0.98")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-0.0004, 0.0009, "yes"),
        (0.0005, 0.0015, "NO"),
        (-0.0009, 0.0020, "not judged: the interval is too wide"),
        (0.0011, 0.0090, "NO"),  # wide, and beyond all the same
    ],
)
def test_a_deviation_is_held_where_its_whole_interval_lies_inside(low: float, high: float, word: str) -> None:
    made = figure.within("bias", (low, (low + high) / 2, high), 0.001)
    assert (made.judgment, made.promised) == (word, "inside ±0.1 %")
    assert figure.within("bias", (low, 0.0, high), 0.001, "noisy").judgment == "not judged: noisy"


def test_what_was_said_beforehand_is_not_judged_whatever_came() -> None:
    for hits in (300, 0):
        one = rate("x", hits, 300, 0.90, "the host is busy")
        assert (one.judgment, figure.exit_code([one])) == ("not judged: the host is busy", 0)
    assert figure.exit_code([rate("x", 0, 300, 0.90)]) == 1


def test_the_table_has_the_column(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    made = [rate("a", 300, 300, 0.9), rate("b", 30, 300, 0.9), rate("c", 3, 3, 0.9), Promise("d", "1 ns", "", True)]
    figure.table(made, sys.stdout)
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip(" ─")]
    assert head == ["figure", "found", "promised", "held"]
    assert [row[-1] for row in rows[:2]] == ["yes", "NO"] and "not judged: 3 trials are too few" in " ".join(rows[2])


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


def test_pairs_without_error_and_pairs_of_wide_intervals_hide_nothing() -> None:
    """Whose runs lie three of their errors apart."""
    assert spread.between([runs([1.0] * 5, 0.0), runs([2.0] * 5, 0.0)])["wall"].sd == 0.0
    assert spread.between([runs([1.0, 1.01] * 5, 0.0)])["wall"].sd == pytest.approx(0.00524, abs=1e-4)
    pairs = [scattered(0.003, 0.001, 20, seed) for seed in range(4)] + [scattered(0.0, 0.1, 20, 9)]
    assert spread.between(pairs)["wall"].sd == pytest.approx(0.003, abs=0.0008)


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
    (row,) = json.loads(json.dumps(spread.rows(found, known)))
    assert (row["path"], row["runs"], row["steps"], row["degrees"]) == ("wall", 4000, 3800, 3800)
    assert len(row["pairs"]) == 200
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
