"""What the notes of a run say."""

from __future__ import annotations

from dataclasses import replace

from reports.findings import said
from reports.record import Note
from tests.reports.runs import NOTE, RUN


def test_of_one_plan_the_last_note_of_a_topic_stands_for_those_before() -> None:
    notes = (
        NOTE,
        Note("lacks", {"sentences": ["5 contests are missing."], "of": "a"}),
        Note("lacks", {"sentences": ["2 contests are missing."], "of": "b"}),
        Note("answer", {"sentences": ["A is faster."], "of": "a"}),
        Note("lacks", {"sentences": [], "of": "a"}),
    )
    assert said(replace(RUN, notes=notes)) == ["It does.", "2 contests are missing.", "A is faster."]
