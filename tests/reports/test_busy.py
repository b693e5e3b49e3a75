"""The line that says that a machine was busy, and what of it is in the figures."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from reports import busy, formats, step
from reports.record import Run
from tests.reports import made, made_step

ROUNDS: dict[str, Any] = {"rounds": tuple(range(27)), "samples": (1e-6,) * 27}
HEAD = "This machine was busy: in 89% of the rounds of a case (median) others took more than 1 % of it. "


def both(**more: Any) -> Run:
    """A contest of two cases, both disturbed alike."""
    contest = made.contest(8)
    return made.run(replace(contest, results=tuple(replace(x, **(ROUNDS | more)) for x in contest.results)))


@pytest.mark.parametrize(
    ("clock", "rejected", "words"),
    [
        ("cpu", 0, "By processor time (clock cpu) these rounds count, for what others took is not in it."),
        ("wall", 24, "By the wall they are rejected, 24 of 27, and are in no ratio."),
        ("wall", 0, "Of several threads, or of long visits by the wall, they count, with what others took."),
    ],
)
def test_a_busy_machine_is_said_first_with_what_it_means_by_clock(clock: str, rejected: int, words: str) -> None:
    disturbed = both(clock=clock, rejected=tuple(range(rejected)), lost=24 / 27)
    assert busy.sentence(disturbed) == HEAD + words
    for kind in ("text", "markdown"):
        stream = io.StringIO()
        formats.write(kind, disturbed, stream)
        assert stream.getvalue().splitlines()[0] == HEAD + words


@pytest.mark.parametrize("more", [{"lost": 0.2}, {"lost": None}, {"clock": "event", "lost": 1.0}])
def test_no_other_machine_is_called_busy(more: dict[str, Any]) -> None:
    """A file from before results had their share, and a GPU that was hot, are none."""
    assert busy.sentence(both(**({"clock": "wall"} | more))) is None


def test_a_busy_script_names_share_and_remedy() -> None:
    assert busy.step_sentence(None, 1) is None and busy.step_sentence(busy.TAKEN, 2) is None
    head = "This machine was busy: others took 33% of the processor time that this script could use. "
    assert busy.step_sentence(0.334, 1) == head + "Use a quiet machine."
    barriers = "Each barrier of its 2 threads waits for the slowest: use --threads 1, or a quiet machine."
    assert busy.step_sentence(0.334, 2) == head + barriers


@pytest.mark.parametrize(("share", "grade"), [(None, "strong"), (0.09, "strong"), (0.2, "fair"), (0.5, "weak")])
def test_a_busy_script_is_never_strong(share: float | None, grade: str) -> None:
    quality = step.quality(made_step.found(busy=share, residual={"a": 0.001}))
    assert quality.startswith(f"Quality: {grade}: ")
    assert ("a quiet machine" in quality) == (grade != "strong")


def test_a_longer_budget_is_no_remedy_on_a_busy_machine() -> None:
    assert "(a longer --budget)" in step.quality(made_step.found(residual={"a": 0.05}))
    assert "(a longer --budget)" not in step.quality(made_step.found(residual={"a": 0.05}, busy=0.5))
