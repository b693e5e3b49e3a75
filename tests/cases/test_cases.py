"""The court without clocks: its scripts are there and small, and each of its judgments finds what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cases import judgment, table, truth
from tests.cases.court import HERE, Case, cases

LONGEST = 30  # lines of a script
UNSURE = "a fused optimizer is not certain to save anything: measured here, it changes a step by"
FAST = "To try: a fused optimizer: saves at most 2 ms of a step. Do: fused=True."
DOUBLE = "Setting: 9% of the FLOP are computed in float64, in half of the numbers per instruction and twice the bytes."


def document(*sentences: str, **changes: Any) -> dict[str, Any]:
    """Return a report's document of a step of 10 ms, for the judgments."""
    parts: dict[str, Any] = {
        "step": {"a": 10e-3},
        "kinds": [{"name": "gemm", "a": 6e-3}, {"name": "copy", "a": 3e-3}],
        "cells": [
            {"phase": "update", "a": 2e-3, "operations": [{"name": x, "seconds": 1e-3} for x in ("sqrt", "mm")]},
            {"phase": "forward", "a": 5e-3, "operations": [{"name": "mm", "seconds": 5e-3}]},
        ],
        "modules": [{"path": x, "phases": {"": s}} for x, s in (("net", 8e-3), ("net.0", 5e-3), ("net.1", 3e-3))],
        "lines": [{"file": "/a/train.py", "number": 7, "seconds": 4e-3}],
        "long": {"share": 0.4},
        "sentences": list(sentences),
        "trials": [],
    }
    return {**parts, **changes}


def test_every_script_has_a_case() -> None:
    assert {case.script for case in cases()} == set((HERE / "scripts").glob("*.py"))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_is_small_and_its_remedy_applies(case: Case) -> None:
    text = case.script.read_text("utf-8")
    compile(truth.edited(text, case.remedy), case.name, "exec")
    assert len(text.splitlines()) <= LONGEST and text.splitlines()[0].endswith('."""')
    assert ("#" in case.source or ".py" in case.source) and case.clock in truth.CLOCKS
    assert case.first or case.must or case.must_not or case.cause
    assert case.cause.keys() <= {*judgment.VIEWS, "setting", "long", "share"} and len(case.cause.keys() - {"share"}) < 2
    assert case.advice.keys() <= {"must", "may"}


def test_a_report_is_judged_by_its_beginning_and_its_whole() -> None:
    case = Case("x", "a#1", first=["cause"], must=["do .* measured here"], must_not=["dropout"])
    report = "A step.\nThe cause.\n\n\nTo try: do this: saves 1 ms, measured here\n"
    assert not [*case.faults(report)]
    assert not [*case.faults("printed by the script\n" * 4 + report)]
    late = report.replace("A step.\n", "A step." + "\n" * 4).replace("measured here", "at most") + "less dropout"
    assert [*case.faults(late)] == ["not first: cause", "missing: do .* measured here", "said: dropout"]


@pytest.mark.parametrize(
    ("cause", "changes", "faults"),
    [
        ({"kind": "gemm", "share": 0.5}, {}, []),
        ({"kind": "gemm", "share": 0.4}, {}, ["gemm: 60%, not 40%"]),
        ({"kind": "copy"}, {}, ["first: gemm 60%, not copy"]),
        ({"phase": "forward", "share": 0.5}, {}, []),
        ({"phase": "update"}, {}, ["first: forward 50%, not update"]),
        ({"operation": "mm", "share": 0.6}, {}, []),
        ({"operation": "sqrt"}, {}, ["first: mm 60%, not sqrt"]),
        ({"module": "net.0", "share": 0.5}, {}, []),
        ({"module": "net.1"}, {}, ["first: net.0 50%, not net.1"]),
        ({"line": "train.py:7", "share": 0.4}, {}, []),
        ({"line": "train.py:8"}, {}, ["first: train.py:7 40%, not train.py:8"]),
        ({"long": 0.45}, {}, []),
        ({"long": 0.9}, {}, ["long: 40%, not 90%"]),
        ({"long": 0.4}, {"long": None}, ["first: no long steps 0%, not long"]),
        ({"setting": "float64"}, {"sentences": [DOUBLE]}, []),
        ({"setting": "float64"}, {}, ["first: no setting 0%, not float64"]),
        ({}, {}, []),
    ],
)
def test_the_largest_cause_is_judged_in_its_view(cause: Any, changes: Any, faults: list[str]) -> None:
    assert [*judgment.cause_faults(cause, document(**changes))] == faults


def test_advice_must_may_or_must_not_be_given() -> None:
    given = ["To try: less dropout: saves at most 1 ms of a step. Do: it.", DOUBLE, "To try: keep freed memory: x"]
    assert not [*judgment.advice_faults(Case("x", "#", advice={"must": ["float64"], "may": ["less dropout"]}), given)]
    faults = [*judgment.advice_faults(Case("x", "#", advice={"must": ["channels last"]}), given)]
    assert faults == ["not advised: channels last", "advised: less dropout", "advised: float64"]
    assert not [*judgment.advice_faults(Case("x", "#"), given)]


@pytest.mark.parametrize(
    ("sentence", "most", "faults"),
    [
        (FAST, 0.2, ["a fused optimizer: at most 20% of a step, but saves 30%"]),
        (FAST.replace("at most 2 ms", "2 ms [1 ms, 2.8 ms]"), 0.28, []),
        (f"Not worth it: {UNSURE} −1 ms [−3.1 ms, +900 µs].", 0.31, []),
        ("To try: a fused optimizer: is good. Do: x.", None, []),
        ("", None, []),
    ],
)
def test_a_bound_is_not_below_the_true_saving(sentence: str, most: float | None, faults: list[str]) -> None:
    assert judgment.bound("a fused optimizer", document(sentence)) == (most and pytest.approx(most))
    assert [*judgment.bound_faults(Case("x", "#", bound="a fused optimizer"), 0.3, document(sentence))] == faults


def test_advice_that_costs_time_is_a_fault() -> None:
    case = Case("x", "#", bound="a fused optimizer")
    assert [*judgment.bound_faults(case, -0.2, document(FAST))] == ["advised: a fused optimizer, which costs 20%"]
    assert not [*judgment.bound_faults(case, -0.05, document(FAST))]
    assert not [*judgment.bound_faults(case, -0.2, document())]


def test_only_what_trials_certainly_saved_is_kept() -> None:
    trials = [{"name": "fused", "saves": 2e-3, "low": 1e-3}, {"name": "bf16", "saves": 1e-3, "low": -1e-3}]
    assert judgment.trials_of(document(trials=trials)) == {"fused": pytest.approx(0.2)}


def test_a_step_far_from_the_true_one_is_a_fault() -> None:
    far = {"processor": 0.1, "wall": 1.0}
    assert not [*judgment.step_faults(Case("x", "#"), {"processor": 1e-3, "wall": 9e-3}, document())]
    assert not [*judgment.step_faults(Case("x", "#", steady=False), far, document())]
    assert [*judgment.step_faults(Case("x", "#"), far, document())] == ["a step: 16.7 ms, not 100.0 to 1000.0 ms"]


def test_parts_that_exceed_the_step_are_faults() -> None:
    line, long = {"file": "/a/b.py", "number": 5, "seconds": 2e-2}, {"share": 0.1, "place": "/a/b.py:5"}
    assert not [*judgment.account_faults(document(lines=[line], long=long))]
    faults = [*judgment.account_faults(document(lines=[line], kinds=[{"name": "gemm", "a": 2e-2}]))]
    assert faults == ["kinds: 200% of a step", "line 5: 200% of a step"]


def test_a_row_holds_the_faults_of_every_judgment() -> None:
    case = Case("x", "#", must=["y"], cause={"kind": "copy"}, bound="a fused optimizer", advice={"may": []})
    wrong = document(FAST, kinds=[{"name": "gemm", "a": 2e-2}])
    row = judgment.row(case, {"processor": 2e-3, "wall": 4e-3, "saving": 0.3}, "A step", wrong)
    assert row["named"] == "gemm" and row["bound"] == pytest.approx(0.2)
    starts = ["missing: y", "a step: 16.7", "first: gemm", "kinds: 200%", "advised: a fused", "a fused optimizer: at"]
    assert all(x.startswith(y) for x, y in zip(row["faults"], starts, strict=True))


def test_the_page_shows_rows_and_faults() -> None:
    case = Case("x", "a#1", cause={"kind": "copy", "share": 0.5}, remedy=[["a", "b"]], bound="less dropout")
    row = {"true": {"saving": 0.25}, "minutes": 1.0, "named": "gemm", "share": 0.6, "bound": None, "faults": ["late"]}
    row |= {"trials": {"fused": 0.12}, "processor": "a processor", "commit": "1234567"}
    page = table.page({"x": row}, [case, Case("never run", "b#2")])
    assert "| x | a#1 | kind copy 50% | gemm 60% | less dropout | 25% | – | fused 12% | 1.0 | no |" in page
    assert "0 of 1 right (1 on a processor, commit 1234567)" in page and "- x: late" in page and "never run" not in page


def test_steps_are_averaged_without_the_first(tmp_path: Path) -> None:
    truth.write([(float(x), x / 2) for x in (0, 90, 91, 92, 94, 96, 101)], tmp_path / "step.json")
    assert (tmp_path / "step.json").read_text("utf-8") == "[3.0, 1.5]"
