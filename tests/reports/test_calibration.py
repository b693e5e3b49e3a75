"""How right predictions are, taken together."""

from __future__ import annotations

from dataclasses import replace

from reports import calibration
from reports.record import Expected, Prediction
from tests.reports.test_prediction import AFTER, BEFORE


def made(change: str, predicted: float | None, measured: float, verdict: str | None, half: float = 0.01) -> Prediction:
    said = None if predicted is None else Expected(predicted, predicted - half, predicted + half, 0.9)
    found = Expected(measured, measured - 0.02, measured + 0.02, 0.9)
    return replace(AFTER, id=change, change=change, predicted=said, measured=found, verdict=verdict)


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert list(calibration.sentences([BEFORE])) == []


def test_signs_errors_verdicts_and_intervals_are_counted() -> None:
    told = list(
        calibration.sentences(
            [
                made("heap-keep", -0.20, -0.20, "confirmed"),
                made("threads=2", -0.30, -0.40, "refuted"),
                made("threads=3", 0.10, -0.10, "refuted"),
                made("compile", None, -0.10, None),
                made("isa=avx2", 0.0, 0.005, "below resolution"),
                made("mkl-dispatch", 0.05, 0.005, "refuted"),
                made("batch=4", 0.04, 0.025, "confirmed"),
            ]
        )
    )
    assert told == [
        "7 pairs of step and change measured, 6 of them predicted; two unchanged steps are alike to within 2 % of the "
        "step (median).",
        "What was measured lies inside the 90 % interval of its prediction in 2 of 6; in 3 once the measurement's own "
        "error is added.",
        "Of the 4 that change the step by 5 % or more, by 3 kinds of change, 3 were predictable: sign right in 2; "
        "1 confirmed, 2 refuted; median error 25 % of the change, half-width of their intervals 5 % of it (median).",
        "Of 2 changes whose interval holds 0 and lies within ±5 % of the step, 1 had been predicted to change it by "
        "more than the resolution.",
    ]


def test_the_error_that_was_foreseen_of_what_is_measured_counts_once() -> None:
    one = made("heap-keep", -0.20, -0.223, "confirmed", half=0.02)
    assert [calibration._holds(one, error) for error in (False, True)] == [False, True]
    assert not calibration._holds(replace(one, noise=0.018), error=True)


def test_shares_are_of_the_unchanged_step() -> None:
    assert calibration.share(AFTER, AFTER.measured) == "-11.0 [-13.0, -9.0]"
    assert calibration.share(AFTER, None) == "–"
