"""How right predictions are, taken together: signs, errors, verdicts, intervals, false alarms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from reports import units
from reports.prediction import word
from reports.record import Expected, Prediction

LARGE = 0.05  # of a step: a change that is worth a word


@dataclass(frozen=True)
class Calibration:
    """Counts of pairs that were measured: of those `predicted` how many intervals hold what was measured, `inside`, and
    with its own error, `near`; how many are `large`, by so many `kinds` of change, and of these predicted, `told`, how
    many have the `right` sign; their `verdicts`; how many changed nothing, `null`, and had been predicted to, `alarms`.
    Medians: `resolution` in shares of the step, `error` and the intervals' `half` width in shares of the change."""

    measured: int
    predicted: int
    resolution: float
    inside: int
    near: int
    large: int
    kinds: int
    told: int
    right: int
    verdicts: Counter[str]
    error: float
    half: float
    null: int
    alarms: int


def of(made: Sequence[Prediction]) -> Calibration | None:
    """Of all that were measured, and of those that changed the step by LARGE; None where nothing was."""
    measured = [x for x in made if x.measured is not None and x.resolution is not None]
    if not measured:
        return None
    both = [x for x in measured if x.predicted is not None]
    large = [x for x in measured if is_large(x)]
    told = [x for x in large if x.predicted is not None]
    null = [x for x in both if _is_null(x)]
    return Calibration(
        measured=len(measured),
        predicted=len(both),
        resolution=median((x.resolution or 0.0) / x.step for x in measured),
        inside=sum(_holds(x, error=False) for x in both),
        near=sum(_holds(x, error=True) for x in both),
        large=len(large),
        kinds=len({x.change.partition("=")[0] for x in large}),
        told=len(told),
        right=sum(_center(x.predicted) * _center(x.measured) > 0 for x in told),
        verdicts=Counter(word(x) for x in told),
        error=median(abs(_error(x)) for x in told) if told else 0.0,
        half=median(map(_half, told)) if told else 0.0,
        null=len(null),
        alarms=sum(abs(_center(x.predicted)) > (x.resolution or 0.0) for x in null),
    )


def sentences(made: Sequence[Prediction]) -> Iterator[str]:
    """What that is, in words."""
    found = of(made)
    if found is None:
        return
    yield (
        f"{units.counted(found.measured, 'pair')} of step and change measured, {found.predicted} of them predicted; "
        f"two unchanged steps are alike to within {units.percent(100 * found.resolution)} of the step (median)."
    )
    yield (
        f"What was measured lies inside the 90 % interval of its prediction in {found.inside} of {found.predicted}; in "
        f"{found.near} once the measurement's own error is added."
    )
    if found.told:
        counted = ", ".join(f"{found.verdicts[one]} {one}" for one in sorted(found.verdicts))
        error, half = units.percent(100 * found.error), units.percent(100 * found.half)
        yield (
            f"Of the {found.large} that change the step by {units.percent(100 * LARGE)} or more, by {found.kinds} "
            f"kinds of change, {found.told} were predictable: sign right in {found.right}; {counted}; median "
            f"error {error} of the change, half-width of their intervals {half} of it (median)."
        )
    changes = units.counted(found.null, "change")
    yield (
        f"Of {changes} whose interval holds 0 and lies within ±{100 * LARGE:.0f} % of the step, {found.alarms} had "
        "been predicted to change it by more than the resolution."
    )


def share(x: Prediction, of: Expected | None) -> str:
    """Per cent of the unchanged step, with the interval."""
    if of is None:
        return "–"
    center, low, high = (100 * one / x.step for one in (of.seconds, of.low, of.high))
    return f"{center:+.1f} [{low:+.1f}, {high:+.1f}]"


def _is_null(x: Prediction) -> bool:
    """Whether it certainly changed the step by nothing that is worth a word."""
    most = LARGE * x.step
    return x.measured is not None and -most < x.measured.low <= 0 <= x.measured.high < most


def is_large(x: Prediction) -> bool:
    """Whether it changed the step by LARGE."""
    return x.measured is not None and abs(x.measured.seconds) >= LARGE * x.step


def _center(of: Expected | None) -> float:
    return 0.0 if of is None else of.seconds


def _half(x: Prediction) -> float:
    """Of the predicted interval, in shares of what was measured."""
    assert x.predicted is not None
    return (x.predicted.high - x.predicted.low) / 2 / abs(_center(x.measured))


def _error(x: Prediction) -> float:
    """Of what was measured."""
    return _center(x.predicted) / _center(x.measured) - 1


def _holds(x: Prediction, error: bool) -> bool:
    """Whether the predicted interval holds what was measured, with its own `error` or without."""
    assert x.predicted is not None and x.measured is not None
    over = x.measured.seconds > x.predicted.seconds
    half = x.predicted.high - x.predicted.seconds if over else x.predicted.seconds - x.predicted.low
    if error:  # for what was foreseen of it
        half = math.sqrt(max(0.0, half**2 - x.noise**2) + ((x.measured.high - x.measured.low) / 2) ** 2)
    return abs(x.measured.seconds - x.predicted.seconds) <= half
