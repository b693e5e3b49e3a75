"""Predictions in run files, and what a person reads of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from reports import findings, prediction, store
from reports.formats import json as json_format
from reports.record import Expected, Note, Prediction, Run
from tests.build import environment

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
    "9000 page faults a step before, 0 with it",
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
    assert lines[4] == "Resolution: two unchanged steps in the same rounds are alike to within 20.0 ms, 2 % of a step."
    assert "  heap-keep: 9000 page faults a step before, 0 with it; costs: memory" in lines
    assert "    predicted of page faults −100 ms, malloc −1.00 ms" in lines
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
        line = f"  a+b: interaction, beyond the sum of each {words} its error of 34.6 ms"
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
    assert "1. heap-keep: a step takes 11.0 % less [9.0, 13.0]; predicted: 10.0 %, confirmed; changes: memory" in text
    assert "Not tried: compile (not predictable: it fuses)." in text
    assert text.endswith("To have it:\n  export A=1")


def test_where_nothing_helps_that_is_said() -> None:
    text = advised(replace(AFTER, measured=Expected(-0.11, -0.23, 0.01, 0.9)), winner=None, order=[])
    assert text.startswith("Of 1 change tried none certainly makes a step faster by 1 %.")
    assert "Tried, without a saving that is certain: heap-keep (-11.0 %)." in text and "To have it" not in text


def test_what_saves_and_is_not_combined_is_told_apart() -> None:
    text = advised(order=[])
    assert "Saves too, and is not among the best that go together: heap-keep (-11.0 %)." in text
    coarse = advised(replace(AFTER, resolution=0.12), order=[])
    assert "Tried, without a saving that is certain: heap-keep (-11.0 %)." in coarse
