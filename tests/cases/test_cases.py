"""The court without clocks: its scripts are there and small, its patterns judge."""

from __future__ import annotations

import pytest

from tests.cases.court import HERE, Case, cases

LONGEST = 30  # lines of a script


def test_every_script_has_a_case() -> None:
    assert {case.script for case in cases()} == set((HERE / "scripts").glob("*.py"))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_is_small_has_a_source_and_expects_something(case: Case) -> None:
    text = case.script.read_text("utf-8")
    compile(text, case.name, "exec")
    assert len(text.splitlines()) <= LONGEST and "#" in case.source
    assert case.first or case.must or case.must_not


def test_a_report_is_judged_by_its_beginning_and_its_whole() -> None:
    case = Case("x", "a#1", first=["cause"], must=["do .* made here"], must_not=["dropout"])
    report = "A step.\nThe cause.\n\n\nTo try: do this: saves 1 ms, made here\n"
    assert not [*case.faults(report)]
    assert not [*case.faults("printed by the script\n" * 4 + report)]
    late = report.replace("A step.\n", "A step." + "\n" * 4).replace("made here", "at most") + "less dropout"
    assert [*case.faults(late)] == ["not first: cause", "missing: do .* made here", "said: dropout"]
