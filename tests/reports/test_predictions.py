"""What the next run and a change will show, and what came of it."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports import compare, findings, flat, next_run, prediction, stats, store, table
from reports.formats import json as json_format
from reports.next_run import Spread
from reports.record import Expected, Note, Prediction, Replicate, Run
from tests import build
from tests.build import environment
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
    unknown = "between runs: unknown (%s)"
    for path, says in (
        ("cpu", unknown % "cpu" + ", run micro.selftest --full"),
        ("event", unknown % "event"),
        ("generations", unknown % "generations"),
        ("wall threads", "between runs: wall 1 %; unknown (threads), run micro.selftest --full"),
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
    (comparison,) = run.comparisons
    written = {kind: formatted(kind, run) for kind in ("text", "markdown", "json", "csv")}
    assert all("1.39 to 1.62" in written[kind] for kind in ("text", "markdown"))
    (document,) = json.loads(written["json"])["comparisons"]
    assert (document["next_low"], document["path"]) == (comparison.next_low, ["wall"])
    rows = [row for row in csv.DictReader(io.StringIO(written["csv"])) if row["against"]]
    assert [float(row["next_high"]) for row in rows] == [comparison.next_high]
    (flat_row,) = flat.comparisons(run)
    assert (flat_row["path"], flat_row["replicates"]) == ("wall", 0)


BEFORE = Prediction(
    "small/pytorch/heap-keep/8/step/1",
    "small",
    "pytorch",
    "heap-keep",
    8,
    "step",
    1,
    0.9,
    Expected(-0.1, -0.12, -0.08, 0.9),
    {"page faults": -0.1, "malloc": -0.001},
    "page faults per step: 9000 before, 0 with the change",
    "memory",
)
AFTER = replace(
    BEFORE,
    step=1.0,
    measured=Expected(-0.11, -0.13, -0.09, 0.9),
    resolution=0.02,
    verdict="confirmed",
    contest="the contest",
)
UNKNOWN = replace(
    BEFORE, id="other", change="compile", predicted=None, parts={}, effect="", reason="not predictable: it fuses"
)


def test_a_file_has_both_lines_and_a_run_the_last(tmp_path: Path) -> None:
    file = store.RunFile(tmp_path / "run.jsonl", environment())
    for one in (BEFORE, UNKNOWN, AFTER):
        file.append(one)
    file.close()
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert kinds == ["environment", "prediction", "prediction", "prediction"]
    assert store.read(tmp_path / "run.jsonl").predictions == file.run.predictions == (AFTER, UNKNOWN)


def test_a_document_has_them_where_there_are_any(tmp_path: Path) -> None:
    for predictions in ((AFTER,), ()):
        path = tmp_path / f"{len(predictions)}.json"
        with path.open("w") as stream:
            json_format.write(Run(environment(), predictions=predictions), stream)
        told = json.loads(path.read_text())
        assert [x["measured"]["seconds"] for x in told.get("predictions", [])] == [-0.11] * len(predictions)
        assert ("predictions" in told) == bool(predictions)


def test_a_table_says_what_was_predicted_and_what_came_of_it() -> None:
    lines = prediction.text([AFTER, UNKNOWN]).splitlines()
    assert findings.texts(Run(environment(), predictions=(AFTER,))) == [prediction.text([AFTER])]
    assert lines[0].startswith("A step of small, batch 8, in pytorch, 1 thread, takes 1.00 s.")
    head, keep, compiled = (line.split("  ") for line in lines[1:4])
    assert [x.strip() for x in head if x] == list(prediction.HEAD)
    row = "heap-keep; −100 ms [−120 ms, −80.0 ms]; −110 ms [−130 ms, −90.0 ms]; -11.0 %; 9 %; confirmed"
    assert "; ".join(x.strip() for x in keep if x.strip()) == row
    assert [x.strip() for x in compiled if x.strip()] == ["compile", "–", "–", "–", "–", "–"]
    assert lines[4] == "Resolution: two unchanged steps in the same rounds differ by up to 20.0 ms, 2 % of a step."
    assert "  heap-keep: page faults per step: 9000 before, 0 with the change; costs: memory" in lines
    assert "    predicted from page faults −100 ms, malloc −1.00 ms" in lines
    assert lines[-1] == "  compile: not predictable: it fuses"


def test_what_is_open_is_called_so_and_of_what_is_below_resolution_no_error_is_told() -> None:
    undecided = replace(AFTER, verdict=None, reason=prediction.UNDECIDED)
    assert (prediction.word(undecided), prediction.off(undecided)) == ("undecided", "9 %")
    own = replace(AFTER, id="own", network="train.py", batch=0, contest=None)
    told = prediction.text([own, replace(own, id="coarse", change="huge-pages", resolution=0.2)])
    assert told.startswith("A step of train.py, 1 thread, takes 1.00 s.")
    assert "Resolution (heap-keep): " in told and "Resolution (huge-pages): " in told
    below = replace(AFTER, verdict="below resolution")
    assert (prediction.word(below), prediction.off(below)) == ("below resolution", "–")


def test_of_several_at_once_what_they_do_to_each_other_is_told() -> None:
    def made(change: str, seconds: float) -> Prediction:
        return replace(AFTER, id=change, change=change, measured=Expected(seconds, seconds - 0.02, seconds + 0.02, 0.9))

    single = made("a", -0.1), made("b", -0.1)
    for seconds, words in ((-0.3, "−100 ms, more than"), (-0.19, "+10.0 ms, within")):
        line = f"  a+b: interaction (beyond the sum) {words} its error, 34.6 ms"
        assert line in prediction.text([*single, made("a+b", seconds)])
    other = replace(made("a+b", -0.3), contest="another")
    text = prediction.text([*single, other])
    assert "beyond" not in text and "Resolution (a, b): " in text and "Resolution (a+b): " in text


def advised(one: Prediction = AFTER, **data: object) -> str:
    plain = {"winner": "heap-keep", "order": ["heap-keep"], "tried": ["heap-keep"], "worth": 0.01, "applied": 2}
    shell = "# heap-keep: less\nexport A=1\n"
    note = Note(prediction.ADVICE, {**plain, "shell": shell, **data})
    (text,) = prediction.advice(Run(environment(), notes=(note,), predictions=(one, UNKNOWN)))
    return text


def test_advice_is_told_in_order_with_what_to_type() -> None:
    text = advised()
    assert "1. heap-keep: a step takes 11.0 % less [9.0, 13.0]; predicted: 10.0 %, confirmed; costs: memory" in text
    assert "Not tried: compile (not predictable: it fuses)." in text
    assert text.endswith("To apply the best:\n  export A=1")


def test_where_nothing_helps_that_is_said() -> None:
    text = advised(replace(AFTER, measured=Expected(-0.11, -0.23, 0.01, 0.9)), winner=None, order=[])
    assert text.startswith("Of 1 change tried, none certainly saves 1 % of a step.")
    assert "Tried, without a certain saving: heap-keep (-11.0 %)." in text and "To apply" not in text


def test_what_saves_and_is_not_combined_is_told_apart() -> None:
    text = advised(order=[])
    assert "Saves, too, but is not in the best combination: heap-keep (-11.0 %)." in text
    coarse = advised(replace(AFTER, resolution=0.12), order=[])
    assert "Tried, without a certain saving: heap-keep (-11.0 %)." in coarse
