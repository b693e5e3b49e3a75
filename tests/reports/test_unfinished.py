"""What is said of a run that was stopped before its contest ended."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from reports import formats, unfinished
from reports.record import Note, Run
from tests.reports.runs import CONTEST, ENVIRONMENT, NOTE

COMMAND = "python -m macro run fcn-s -o a.jsonl"
STOPPED = replace(ENVIRONMENT, command=COMMAND)
ROUNDS = tuple(Note("round", {"contest": "step/network:fcn-s", "number": i}) for i in range(4))
SHORT = replace(CONTEST, contest="d", stopped="interrupted after 7 rounds", interrupted=True)
WATCHED = (Note("watched", {"side": 0}), Note("watched", {"side": 1}))


@pytest.mark.parametrize(
    ("run", "sentences"),
    [
        (
            Run(STOPPED, (), ROUNDS),
            [f"Unfinished: step/network:fcn-s, of which 4 rounds lie here; to go on: {COMMAND} --resume"],
        ),
        (
            Run(STOPPED, (CONTEST,), ROUNDS[:1]),
            [f"Unfinished: step/network:fcn-s, of which 1 round lies here; to go on: {COMMAND} --resume"],
        ),
        (
            Run(replace(STOPPED, command=COMMAND + " --resume"), (), WATCHED),
            [f"Unfinished: the explanation, of which 2 rounds lie here; to go on: {COMMAND} --resume"],
        ),
        (Run(STOPPED), [f"Unfinished: no contest has ended here; to go on: {COMMAND} --resume"]),
        (Run(replace(STOPPED, command="from Python: a.py")), ["Unfinished: no contest has ended here."]),
        (Run(STOPPED, (replace(CONTEST, contest="step/network:fcn-s"),), ROUNDS), []),
        (Run(STOPPED, (), (NOTE,)), []),
        (Run(STOPPED, (SHORT, CONTEST)), [f"Unfinished: d, interrupted after 7 rounds; to go on: {COMMAND} --resume"]),
        (
            Run(replace(STOPPED, command="python -m micro.gemm"), (SHORT,)),
            ["Unfinished: d, interrupted after 7 rounds."],
        ),
    ],
)
def test_what_is_unfinished_is_said_with_the_command_that_goes_on(run: Run, sentences: list[str]) -> None:
    assert list(unfinished.sentences(run)) == sentences


@pytest.mark.parametrize("kind", ["text", "markdown"])
def test_no_empty_table_stands_for_it(kind: str) -> None:
    stream = io.StringIO()
    formats.write(kind, Run(STOPPED, (), ROUNDS), stream)
    assert "4 rounds lie here" in stream.getvalue()
    assert "case" not in stream.getvalue() and "contender" not in stream.getvalue()
