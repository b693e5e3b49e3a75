"""`python -m tests.soak predictions`: what it says of run files made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from macro import changes
from reports.record import Contest, Expected, Prediction
from tests.reports.test_prediction import AFTER, BEFORE
from tests.soak import calibration, predictions
from tests.soak.conftest import Answer, Record

CONTEST = Contest("step/x", "?", "change", (), ())


def pair(change: str, seconds: float, name: str, predicted: float | None = None) -> Prediction:
    """Return a prediction for a step of a second, predicted as it came unless another prediction is given."""
    expected, measured = (Expected(x, x - 0.01, x + 0.01, 0.9) for x in (predicted or seconds, seconds))
    return replace(
        AFTER, id=f"{name}/{change}", change=change, step=1.0, predicted=expected, measured=measured, resolution=0.01
    )


def asked(name: str) -> list[str]:
    """The changes of a command."""
    words = predictions.COMMANDS[name].split()[2:]
    return list(itertools.takewhile(lambda word: not word.startswith("--"), words))


def of(name: str, *, cut: bool = False) -> Sequence[Record]:
    """Return a prediction for each change of a command, every other one of no effect; `cut`: its turns did not end."""
    pairs = [pair(change, -0.1 if i % 2 else 0.0001, name) for i, change in enumerate(asked(name))]
    return pairs if cut else [*pairs, CONTEST]


def test_what_is_right_is_held(macro: Callable[[Answer], list[str]]) -> None:
    stems = macro(lambda stem, again: of(stem))
    figures = list(predictions.figures())
    assert stems == list(predictions.COMMANDS)
    assert all(figure.held for figure in figures), [figure.say() for figure in figures if not figure.held]
    text = "predicted +0.0 [-1.0, +1.0] %, measured +0.0 [-1.0, +1.0] % of a step: confirmed"
    assert figures[1].say() == f"fcn-r-pytorch, mkl-dispatch: {text}"


@pytest.mark.parametrize(
    ("code", "cut", "pairs"),
    [
        (2, False, "32,"),  # a framework is missing: the others go on
        (1, True, "32,"),  # it ended in the middle, with the exit code of one of which a change had no effect
        (1, False, "35,"),  # a change had no effect
    ],
)
def test_a_command_that_fails_costs_its_pairs(
    code: int, cut: bool, pairs: str, macro: Callable[[Answer], list[str]]
) -> None:
    name = "fcn-s-pytorch"
    stems = macro(lambda stem, again: (code, of(stem, cut=cut)) if stem == name else of(stem))
    figures = {figure.name: figure for figure in predictions.figures()}
    assert stems == list(predictions.COMMANDS) and figures["pairs"].value.startswith(pairs)
    assert (name in figures) is (pairs == "32,") and not (name in figures and figures[name].held)


@pytest.mark.parametrize(
    ("names", "figure"), [(["a"] * 6, "pairs of one change"), (["batch=3"] * 4, "batch, threads, isa")]
)
def test_no_change_stands_for_many(names: list[str], figure: str) -> None:
    pairs = [pair(change, -0.1, str(i)) for i, change in enumerate(names)]
    assert [x.held for x in predictions.together(pairs) if x.name.endswith(figure)] == [False]
    assert [x.held for x in predictions.together(pairs[:3]) if x.name.endswith(figure)] == [True]


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        ({"predicted": Expected(0.2, 0.19, 0.21, 0.9)}, "… sign"),
        ({"predicted": Expected(-0.2, -0.21, -0.19, 0.9)}, "… off by"),
        ({"predicted": Expected(-0.1, -0.2, 0.0, 0.9)}, "… half-width"),
        ({"predicted": None}, "… not predictable"),
        ({"verdict": "refuted"}, "… confirmed"),
        ({"resolution": 0.021}, "resolution"),
    ],
)
def test_each_promise_can_fail(change: dict[str, Any], figure: str) -> None:
    pairs = [pair(f"change{i % 9}", -0.1 if i % 2 else 0.0001, str(i)) for i in range(40)]
    assert all(x.held for x in predictions.together(pairs))
    every = figure == "resolution"
    large = [replace(x, **change) if every or (x.measured and x.measured.seconds < -0.05) else x for x in pairs]
    assert figure in [x.name for x in predictions.together(large) if not x.held]


def test_intervals_and_alarms_can_fail_too() -> None:
    pairs = [pair(f"change{i % 9}", 0.0001, str(i), predicted=0.2) for i in range(40)]
    missed = [x.name for x in predictions.together(pairs) if not x.held]
    assert missed[:2] == ["90 % intervals", "… that were predicted to be one"]


def test_changes_exist_and_none_has_a_sixth_of_them() -> None:
    kinds = [change.partition("=")[0] for name in predictions.COMMANDS for change in asked(name)]
    assert {changes.known(kind).name for kind in kinds} == set(kinds)
    assert len(kinds) >= 30 and max(map(kinds.count, kinds)) <= 5
    assert sum(kind in ("threads", "isa", "batch") for kind in kinds) <= 3


def verdict_pair(
    change: str, predicted: float | None, measured: float, verdict: str | None, half: float = 0.01
) -> Prediction:
    """Return a prediction whose interval has a `half` width, measured to within 0.02 s."""
    expected = None if predicted is None else Expected(predicted, predicted - half, predicted + half, 0.9)
    ends = Expected(measured, measured - 0.02, measured + 0.02, 0.9)
    return replace(AFTER, id=change, change=change, predicted=expected, measured=ends, verdict=verdict)


def test_unmeasured_pairs_have_no_sentences() -> None:
    assert list(calibration.sentences([BEFORE])) == []


def test_signs_errors_verdicts_and_intervals_are_counted() -> None:
    sentences = list(
        calibration.sentences(
            [
                verdict_pair("heap-keep", -0.20, -0.20, "confirmed"),
                verdict_pair("threads=2", -0.30, -0.40, "refuted"),
                verdict_pair("threads=3", 0.10, -0.10, "refuted"),
                verdict_pair("compile", None, -0.10, None),
                verdict_pair("isa=avx2", 0.0, 0.005, "below resolution"),
                verdict_pair("mkl-dispatch", 0.05, 0.005, "refuted"),
                verdict_pair("batch=4", 0.04, 0.025, "confirmed"),
            ]
        )
    )
    assert sentences == [
        "7 pairs of step and change measured, 6 of them predicted; two unchanged steps are alike to within 2 % of the "
        "step (median).",
        "What was measured lies inside the 90 % interval of its prediction in 2 of 6; in 3 once the measurement's own "
        "error is added.",
        "Of the 4 that change the step by 5 % or more, by 3 kinds of change, 3 were predictable: sign right in 2; "
        "1 confirmed, 2 refuted; median error 25 % of the change, half-width of their intervals 5 % of it (median).",
        "Of 2 changes whose interval holds 0 and lies within ±5 % of the step, 1 had been predicted to change it by "
        "more than the resolution.",
    ]


def test_a_foreseen_error_counts_once() -> None:
    near = verdict_pair("heap-keep", -0.20, -0.223, "confirmed", half=0.02)
    assert [calibration._holds(near, error) for error in (False, True)] == [False, True]
    assert not calibration._holds(replace(near, noise=0.018), error=True)


def test_shares_are_of_the_unchanged_step() -> None:
    assert calibration.share(AFTER, AFTER.measured) == "-11.0 [-13.0, -9.0]"
    assert calibration.share(AFTER, None) == "–"
