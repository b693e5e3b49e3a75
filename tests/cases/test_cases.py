"""The court without clocks: its scripts are there and small, its patterns and its judgments find what is wrong."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.cases import judgment, table, timed_steps, truth
from tests.cases.court import HERE, Case, cases

LONGEST = 30  # lines of a script
FAST = "To try: a fused optimizer: saves at most 2 ms of a step. Do: fused=True."
DOUBLE = "Setting: 9% of the FLOP are computed in float64, in half of the numbers per instruction and twice the bytes."


def document(*sentences: str, **changes: Any) -> dict[str, Any]:
    """Return a report's document of a step of 10 ms, for the judgments."""
    cells = [
        {"phase": "update", "operations": [{"name": "sqrt", "seconds": 1e-3}, {"name": "mm", "seconds": 1e-3}]},
        {"phase": "forward", "operations": [{"name": "mm", "seconds": 5e-3}]},
    ]
    parts: dict[str, Any] = {
        "step": {"a": 10e-3},
        "kinds": [{"name": "gemm", "a": 6e-3}, {"name": "copy", "a": 3e-3}],
        "cells": [{**cell, "a": sum(x["seconds"] for x in cell["operations"])} for cell in cells],
        "modules": [
            {"path": x, "phases": {"forward": s}} for x, s in (("net", 8e-3), ("net.0", 5e-3), ("net.1", 3e-3))
        ],
        "lines": [{"file": "/a/train.py", "number": 7, "seconds": 4e-3}],
        "long": {"share": 0.4},
        "sentences": list(sentences),
    }
    return {**parts, **changes}


def test_every_script_has_a_case() -> None:
    assert {case.script for case in cases()} == set((HERE / "scripts").glob("*.py"))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_is_small_and_its_remedy_applies(case: Case) -> None:
    text = case.script.read_text("utf-8")
    compile(truth.edited(text, case.remedy), case.name, "exec")
    assert len(text.splitlines()) <= LONGEST and ("#" in case.source or ".py" in case.source)
    assert "\n" not in (ast.get_docstring(ast.parse(text)) or "\n")
    assert case.first or case.must or case.must_not or case.cause
    assert case.cause.keys() <= {*judgment.VIEWS, "setting", "long", "share"} and len(case.cause.keys() - {"share"}) < 2
    assert case.advice.keys() <= {"must", "may"} and case.clock in ("processor", "wall")


def test_a_report_is_judged_by_its_beginning_and_its_whole() -> None:
    case = Case("x", "a#1", first=["cause"], must=["do .* made here"], must_not=["dropout"])
    report = "A step.\nThe cause.\n\n\nTo try: do this: saves 1 ms, made here\n"
    assert not [*case.faults(report)]
    assert not [*case.faults("printed by the script\n" * 4 + report)]
    late = report.replace("A step.\n", "A step." + "\n" * 4).replace("made here", "at most") + "less dropout"
    assert [*case.faults(late)] == ["not first: cause", "missing: do .* made here", "said: dropout"]


@pytest.mark.parametrize(
    ("right", "wrong", "named"),
    [
        ({"kind": "gemm", "share": 0.5}, {"kind": "copy"}, "gemm 60%"),
        ({"phase": "forward", "share": 0.5}, {"phase": "update"}, "forward 50%"),
        ({"operation": "mm", "share": 0.6}, {"operation": "sqrt"}, "mm 60%"),
        ({"module": "net.0", "share": 0.5}, {"module": "net.1"}, "net.0 50%"),
        ({"line": "train.py:7", "share": 0.4}, {"line": "train.py:8"}, "train.py:7 40%"),
    ],
)
def test_the_largest_cause_is_judged_in_its_view(right: dict[str, Any], wrong: dict[str, Any], named: str) -> None:
    assert not [*judgment.cause_faults(right, document())]
    assert [*judgment.cause_faults(wrong, document())] == [f"first: {named}, not {next(iter(wrong.values()))}"]
    share = right["share"] * 2
    faults = [*judgment.cause_faults({**right, "share": share}, document())]
    assert faults == [f"{named.rsplit(' ', 1)[0]}: {named.rsplit(' ', 1)[1]}, not {share:.0%}"]


def test_long_steps_and_settings_are_causes() -> None:
    assert not [*judgment.cause_faults({"long": 0.45}, document())]
    assert [*judgment.cause_faults({"long": 0.9}, document())] == ["long: 40%, not 90%"]
    assert [*judgment.cause_faults({"long": 0.4}, document(long=None))] == ["first: no long steps 0%, not long"]
    assert not [*judgment.cause_faults({"setting": "float64"}, document(DOUBLE))]
    assert [*judgment.cause_faults({"setting": "float64"}, document())] == ["first: no setting 0%, not float64"]


def test_advice_must_may_or_must_not_be_given() -> None:
    given = ["To try: less dropout: saves at most 1 ms of a step. Do: it.", DOUBLE, "To try: keep freed memory: x"]
    assert not [*judgment.advice_faults(Case("x", "#", advice={"must": ["float64"], "may": ["less dropout"]}), given)]
    faults = [*judgment.advice_faults(Case("x", "#", advice={"must": ["channels last"]}), given)]
    assert faults == ["not advised: channels last", "advised: less dropout", "advised: float64"]
    assert not [*judgment.advice_faults(Case("x", "#"), given)]


@pytest.mark.parametrize(
    ("sentence", "most"),
    [
        (FAST, 0.2),
        ("To try: a fused optimizer: saves 2 ms [1 ms, 2.5 ms] of a step, made here. Do: x.", 0.25),
        ("Not worth it: a fused optimizer saves nothing for certain, made here: −1 ms [−1.5 ms, +900 µs].", 0.15),
        ("To try: a fused optimizer: is good. Do: x.", None),
        ("", None),
    ],
)
def test_a_bound_is_read_in_each_form(sentence: str, most: float | None) -> None:
    assert judgment.bound("a fused optimizer", document(sentence)) == (most and pytest.approx(most))


def test_a_bound_below_the_true_saving_is_a_fault() -> None:
    case = Case("x", "#", bound="a fused optimizer")
    assert not [*judgment.bound_faults(case, 0.2, document(FAST))]
    faults = [*judgment.bound_faults(case, 0.3, document(FAST))]
    assert faults == ["a fused optimizer: at most 20% of a step, but saves 30%"]
    faults = [*judgment.bound_faults(case, 0.3, document("To try: a fused optimizer: is good"))]
    assert faults == ["no saving: a fused optimizer"]


def test_a_row_holds_the_faults_of_every_judgment() -> None:
    case = Case("x", "#", must=["y"], cause={"kind": "copy"}, bound="a fused optimizer", advice={"may": []})
    row = judgment.row(case, {"step": 4e-3, "saving": 0.3}, "A step", document(FAST))
    assert row["named"] == "gemm" and row["bound"] == pytest.approx(0.2)
    starts = [
        "missing: y",
        "a step: 10.0 ms, not 4.0 ms",
        "first: gemm",
        "advised: a fused optimizer",
        "a fused optimizer: at most",
    ]
    assert all(x.startswith(y) for x, y in zip(row["faults"], starts, strict=True))


def test_a_step_far_from_the_true_one_is_a_fault() -> None:
    assert not [*judgment.step_faults(Case("x", "#"), 7e-3, document())]
    assert not [*judgment.step_faults(Case("x", "#", steady=False), 1.0, document())]
    assert [*judgment.step_faults(Case("x", "#"), 1.0, document())] == ["a step: 10.0 ms, not 1000.0 ms"]


def test_the_page_shows_rows_and_faults() -> None:
    case = Case("x", "a#1", cause={"kind": "copy", "share": 0.5}, remedy=[["a", "b"]], bound="less dropout")
    row = {"true": {"saving": 0.25}, "minutes": 1.0, "named": "gemm", "share": 0.6, "bound": None, "faults": ["late"]}
    page = table.page({"x": row}, [case, Case("never run", "b#2")])
    assert "| x | a#1 | kind copy 50% | gemm 60% | less dropout | 25% | – | 1.0 | no |" in page
    assert "0 of 1 right" in page and "- x: late" in page and "never run" not in page


def test_steps_are_timed_without_the_first(tmp_path: Path) -> None:
    ticks = [(float(x), x / 2) for x in (0, 90, 91, 92, 94, 96, 99)]
    timed_steps.write(ticks, tmp_path / "steps.json")
    assert (tmp_path / "steps.json").read_text("utf-8") == (
        '{"median": [2.0, 1.0], "mean": [2.3333333333333335, 1.1666666666666667]}'
    )
