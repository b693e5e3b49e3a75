"""Sentences above and below the tables: notes, what is unfinished, a busy machine; texts of explanations and steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports import attribution, busy, company, findings, step
from reports.explanation import Bar, Breakdown
from reports.record import Contest, Note, Run
from tests import build
from tests.explanations import BREAKDOWN, breakdown, explanation
from tests.reports.runs import CONTEST, ENVIRONMENT, NOTE, RUN, formatted


def test_of_one_plan_the_last_note_of_a_topic_stands_for_those_before() -> None:
    notes = (
        NOTE,
        Note("lacks", {"sentences": ["5 contests are missing."], "of": "a"}),
        Note("lacks", {"sentences": ["2 contests are missing."], "of": "b"}),
        Note("answer", {"sentences": ["A is faster."], "of": "a"}),
        Note("lacks", {"sentences": [], "of": "a"}),
    )
    assert findings.notes(replace(RUN, notes=notes)) == ["It does.", "2 contests are missing.", "A is faster."]


COMMAND = "python -m macro run fcn-s -o a.jsonl"
GO_ON = f"; to continue: {COMMAND} --resume"
ROUNDS = tuple(Note("round", {"contest": "step/network:fcn-s", "number": i}) for i in range(4))
SHORT = replace(CONTEST, contest="d", stopped="interrupted after 7 rounds", interrupted=True)
WATCHED = (Note("watched", {"side": 0}), Note("watched", {"side": 1}))


@pytest.mark.parametrize(
    ("command", "contests", "notes", "sentence"),
    [
        (COMMAND, (), ROUNDS, f"step/network:fcn-s, with 4 rounds in the file{GO_ON}"),
        (COMMAND, (CONTEST,), ROUNDS[:1], f"step/network:fcn-s, with 1 round in the file{GO_ON}"),
        (COMMAND + " --resume", (), WATCHED, f"the explanation, with 2 rounds in the file{GO_ON}"),
        (COMMAND, (), (), f"no contest is complete{GO_ON}"),
        ("from Python: a.py", (), (), "no contest is complete."),
        (COMMAND, (replace(CONTEST, contest="step/network:fcn-s"),), ROUNDS, None),
        (COMMAND, (), (NOTE,), None),
        (COMMAND, (), (Note("selftest", {"figures": []}),), None),
        (COMMAND, (SHORT, CONTEST), (), f"d, interrupted after 7 rounds{GO_ON}"),
        ("python -m micro.gemm", (SHORT,), (), "d, interrupted after 7 rounds."),
    ],
)
def test_what_is_unfinished_is_said_with_the_command_that_goes_on(
    command: str, contests: tuple[Contest, ...], notes: tuple[Note, ...], sentence: str | None
) -> None:
    run = Run(replace(ENVIRONMENT, command=command), contests, notes)
    assert list(findings.unfinished(run)) == ([f"Unfinished: {sentence}"] if sentence else [])
    if len(notes) == 4 and sentence:
        for text in (formatted(kind, run) for kind in ("text", "markdown")):  # no empty table stands for it
            assert "4 rounds in the file" in text and "case" not in text and "contender" not in text


DISTURBED: dict[str, Any] = {"rounds": tuple(range(27)), "samples": (1e-6,) * 27}
HEAD = "This machine was busy: other processes took over 1 % of the time in 89% of a case's rounds (median). "


def both(**more: Any) -> Run:
    """A contest of two cases, both disturbed alike."""
    contest = build.transposed(8)
    return build.run(replace(contest, results=tuple(replace(x, **(DISTURBED | more)) for x in contest.results)))


@pytest.mark.parametrize(
    ("clock", "rejected", "words"),
    [
        ("cpu", 0, "With processor time (clock cpu) these rounds count, as it excludes other processes."),
        ("wall", 24, "With wall time they are rejected, 24 of 27, and enter no ratio."),
        ("wall", 0, "With several threads, or long visits in wall time, they count, including the time lost."),
    ],
)
def test_a_busy_machine_is_said_first_with_what_it_means_by_clock(clock: str, rejected: int, words: str) -> None:
    disturbed = both(clock=clock, rejected=tuple(range(rejected)), lost=24 / 27)
    assert busy.sentence(disturbed) == HEAD + words
    for kind in ("text", "markdown"):
        assert formatted(kind, disturbed).splitlines()[0] == HEAD + words


@pytest.mark.parametrize("more", [{"lost": 0.2}, {"lost": None}, {"clock": "event", "lost": 1.0}])
def test_no_other_machine_is_called_busy(more: dict[str, Any]) -> None:
    """A file from before results had their share, and a GPU that was hot, are none."""
    assert busy.sentence(both(**({"clock": "wall"} | more))) is None


@pytest.mark.parametrize(
    ("busy_share", "used", "threads", "disturbed"),
    [
        (None, None, 2, False),
        (busy.TAKEN, 0.9, 1, False),  # others had a core of their own
        (0.0, 0.9, 2, True),  # fewer cores were free than threads
        (0.0, busy.OTHERS, 2, False),
        (0.334, 0.9, 1, True),
        (0.334, None, 1, True),  # a recording of before
    ],
)
def test_a_script_is_disturbed_by_what_it_lost_or_lacked(
    busy_share: float | None, used: float | None, threads: int, disturbed: bool
) -> None:
    program = {**BREAKDOWN.program, "settings": {"cores": 2.0}}
    about = breakdown(busy=busy_share, company=used, threads=threads, program=program)
    remarks = company.sentences(about)
    assert company.disturbs(about) is disturbed is bool(remarks)
    assert not remarks or ("are withheld" in remarks[0] and ("barrier" in remarks[0]) == (threads == 2))


def test_a_busy_script_is_never_strong() -> None:
    for share, grade in ((None, "strong"), (0.04, "strong"), (0.2, "fair"), (0.5, "weak")):
        quality = step.quality(breakdown(busy=share, residual={"a": 0.001}))
        assert quality.startswith(f"Quality: {grade}: ")
        assert ("a quiet machine" in quality) == (grade != "strong")
    for share, is_advised in ((None, True), (0.5, False)):  # a longer budget is no remedy on a busy machine
        assert ("(a longer --budget)" in step.quality(breakdown(residual={"a": 0.05}, busy=share))) == is_advised
    small = replace(BREAKDOWN.kinds[-1], percent=3.0, ceiling="multiply-adds")  # too small for the table
    assert "strong" in step.quality(breakdown(kinds=(*BREAKDOWN.kinds[:-1], small), residual={"a": 0.0}))


@pytest.mark.parametrize(
    ("low", "high", "sure", "says"),
    [
        (0.1, 0.3, False, "may be chance†"),
        (-0.3, -0.1, False, "may be chance†"),
        (-0.1, 0.3, False, "may be chance"),
        (0.1, 0.3, True, "certain"),
        (None, None, False, ""),
    ],
)
def test_an_interval_that_excludes_0_beside_may_be_chance_is_explained(
    low: float | None, high: float | None, sure: bool, says: str
) -> None:
    text = attribution.text(explanation(bars={"cause": (Bar("gemm", 0.3, 0.1, low, high, sure),)}))
    (row,) = (line for line in text.splitlines() if line.startswith("gemm "))
    assert row.endswith(says) and row.endswith("†") == ("†" in says)
    assert ("† its 95 % interval excludes 0" in text) == ("†" in says)


def shared(percent: float, ceiling: str = "multiply-adds", dtype: str = "") -> Breakdown:
    """A step whose products have this share of their ceiling, and no residual."""
    gemm, *others = BREAKDOWN.kinds
    above = replace(gemm, percent=percent, ceiling=ceiling, left=gemm.a - percent * gemm.a, dtype=dtype)
    return breakdown(kinds=(above, *others), residual={"a": 0.0})


def row(made: Breakdown, name: str = "gemm") -> str:
    return next(line for line in step.text(made).splitlines() if line.startswith(name))


@pytest.mark.parametrize("ceiling", ["multiply-adds", "memory"])
@pytest.mark.parametrize(("percent", "quality"), [(1.004, "strong"), (1.02, "fair"), (1.8, "weak")])
def test_a_share_above_its_ceiling_lowers_the_quality(percent: float, ceiling: str, quality: str) -> None:
    """But for one that is printed as 100 %."""
    made = shared(percent, ceiling)
    text, is_alarm = step.text(made), quality != "strong"
    assert text.splitlines()[-1].startswith(f"Quality: {quality}")
    assert ("gemm beats its ceiling" in text) == is_alarm
    assert (f"! gemm is {percent:.0%} of its ceiling" in text) == is_alarm == (f"{percent:.0%} !" in row(made))
    assert row(made).split()[-1].startswith("-") != is_alarm  # no saving from a figure that is wrong


@pytest.mark.parametrize(("dtype", "name"), [("bfloat16", "gemm in bfloat16 "), ("float32", "gemm  "), ("", "gemm  ")])
def test_the_table_names_a_type_other_than_the_usual(dtype: str, name: str) -> None:
    assert row(shared(0.5, dtype=dtype)).startswith(name)
