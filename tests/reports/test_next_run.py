"""What the next run will show: simulated runs, and where it is told."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reports import compare, flat, next_run, stats, table
from reports.next_run import Spread
from reports.record import Replicate, Run
from tests import build
from tests.reports.runs import formatted

Z = 1.959964


def shown(center: float, error: float) -> stats.Interval:
    """A normal 95 % interval."""
    return stats.Interval(center, center * math.exp(-Z * error), center * math.exp(Z * error), 0.0)


@pytest.mark.parametrize(("own", "between"), [(0.01, 0.0), (0.0001, 0.01), (0.01, 0.01), (0.003, 0.02)])
def test_nineteen_of_twenty_next_runs_lie_inside(own: float, between: float) -> None:
    """Simulated: 20,000 pairs of runs, each with an error of its own and a place of its own among all runs."""
    rng, hits, trials = np.random.default_rng(1), 0, 20_000
    firsts, seconds = np.exp(rng.normal(0.2, math.hypot(own, between), (2, trials)))
    for first, second in zip(firsts, seconds, strict=True):
        low, high = next_run.next_run(shown(first, own), between, 1e9)
        hits += low <= second <= high
    assert 0.945 < hits / trials < 0.955


def test_of_few_degrees_it_is_wider() -> None:
    """Student's t."""
    wide, narrow = (next_run.next_run(shown(1.5, 0.0), 0.01, degrees) for degrees in (4, math.inf))
    assert wide[0] < narrow[0] < 1.5 < narrow[1] < wide[1]
    assert math.log(wide[1] / 1.5) / math.log(narrow[1] / 1.5) == pytest.approx(2.776445 / Z, rel=1e-5)


def test_replicates_tell_by_themselves() -> None:
    """Simulated: where a sixth of five runs lies."""
    rng, hits, trials = np.random.default_rng(2), 0, 4000
    for ratios in np.exp(rng.normal(0.1, 0.02, (trials, 6))):
        ends = next_run.of_replicates(ratios[:5].tolist())
        assert ends is not None
        hits += ends[0] <= ratios[5] <= ends[1]
    assert 0.94 < hits / trials < 0.96
    assert next_run.of_replicates([1.3]) is None


def test_of_several_paths_the_widest_counts() -> None:
    known = {"wall": Spread(0.01, 100.0), "python": Spread(0.009, 2.0), "cpu": Spread(0.001, 100.0)}
    assert next_run.between(("wall",), known) == known["wall"]
    assert next_run.between(("wall", "python"), known) == known["python"], "of two degrees: 4.3 times 0.009"
    assert next_run.between(("wall", "cpu"), known) == known["wall"]
    assert next_run.between(("wall", "threads"), known) is None, "half of it is not known"
    assert next_run.between((), known) is None


def test_a_document_of_another_make_has_no_spreads() -> None:
    for kept in (None, {}, {"between": None}, {"between": {"wall": {"sd": "wide"}}}, {"between": {"wall": None}}):
        assert next_run.spreads(replace(build.run().environment, state={"selftest": kept})) == {}


def told(path: tuple[str, ...] = ("wall",), sd: float = 0.01, **changes: Any) -> Run:
    """A run of one contest on a machine whose spread on the wall's path is known."""
    document = {"started": "2026-11-22", "figures": [], "between": {"wall": {"sd": sd, "degrees": 95.0}}}
    plain = build.run(build.transposed(8, path=path, **changes))
    environment = replace(plain.environment, state={"selftest": json.loads(json.dumps(document))})
    known = next_run.spreads(environment)
    return replace(plain, environment=environment, contests=tuple(next_run.foreseen(c, known) for c in plain.contests))


def test_it_stands_beside_the_interval() -> None:
    run = told()
    (comparison,) = run.comparisons
    assert comparison.low is not None and comparison.next_low is not None
    assert comparison.next_low < comparison.low < 1.5 < (comparison.high or 0) < (comparison.next_high or 0)
    shown = table.comparisons(run)
    (row,) = shown.rows
    assert row[shown.head.index("next run")] == "1.39 to 1.62"
    assert table.between(run) == "between runs: wall 1 %"


def test_where_it_is_not_known_it_is_said() -> None:
    unknown = "between runs: not known here (%s)"
    for path, says in (
        ("cpu", unknown % "cpu" + ", run micro.selftest --full"),
        ("event", unknown % "event"),
        ("generations", unknown % "generations"),
        ("wall threads", "between runs: wall 1 %; not known here (threads), run micro.selftest --full"),
        ("", None),
    ):
        run = told(tuple(path.split()))
        assert run.comparisons[0].next_low is None
        assert "next run" not in table.comparisons(run).head
        assert table.between(run) == says
    assert table.between(build.run(build.transposed(8, path=("cpu",)))) == unknown % "cpu" + ", run micro.selftest"
    own = (Replicate(1.5, 1.4, 1.6, "slower"),) * 5  # what they say stands, whatever the self-test knows
    run = told(next_low=1.44, next_high=1.56, replicates=own)
    assert (run.comparisons[0].next_low, run.comparisons[0].next_high) == (1.44, 1.56)
    assert table.between(run) is None


def test_two_runs_are_held_against_what_the_first_foresaw() -> None:
    first = told()
    (contest,) = first.contests
    for ratio, inside in ((1.5, 1), (1.4, 1), (1.3, 0), (1.7, 0)):
        again = replace(contest.comparisons[0], ratio=ratio)
        second = replace(first, contests=(replace(contest, comparisons=(again,)),))
        (note,) = compare.runs(first, second).notes
        assert f"Ratios of b inside a's range for the next run: {inside} of 1." in note.data["sentences"]
        (without,) = compare.runs(told(("cpu",)), second).notes
        assert not [one for one in without.data["sentences"] if one.startswith("Ratios of b")]


def test_every_format_has_it() -> None:
    run = told()
    written = {kind: formatted(kind, run) for kind in ("text", "markdown", "json", "csv")}
    assert "1.39 to 1.62" in written["text"] and "1.39 to 1.62" in written["markdown"]
    (comparison,) = json.loads(written["json"])["comparisons"]
    assert comparison["next_low"] == run.comparisons[0].next_low and comparison["path"] == ["wall"]
    rows = [row for row in csv.DictReader(io.StringIO(written["csv"])) if row["against"]]
    assert [float(row["next_high"]) for row in rows] == [run.comparisons[0].next_high]
    (flat_row,) = flat.comparisons(run)
    assert (flat_row["path"], flat_row["replicates"]) == ("wall", 0)
