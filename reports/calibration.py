"""How right predictions are, taken together: signs, errors, verdicts, intervals, false alarms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from reports import units
from reports.prediction import word
from reports.record import Expected, Prediction

LARGE = 0.05  # of a step: a change that is worth a word


def sentences(made: Sequence[Prediction]) -> Iterator[str]:
    """Of all that were measured, and of those that changed the step by LARGE."""
    measured = [x for x in made if x.measured is not None and x.resolution is not None]
    if not measured:
        return
    both = [x for x in measured if x.predicted is not None]
    resolution = median(100 * (x.resolution or 0.0) / x.step for x in measured)
    yield (
        f"{units.counted(len(measured), 'pair')} of step and change measured, {len(both)} of them predicted; two "
        f"unchanged steps are alike to within {units.percent(resolution)} of the step (median)."
    )
    inside, near = (sum(_holds(x, error) for x in both) for error in (False, True))
    yield (
        f"What was measured lies inside the 90 % interval of its prediction in {inside} of {len(both)}; in {near} once "
        "the measurement's own error is added."
    )
    large = [x for x in measured if x.measured and abs(x.measured.seconds) >= LARGE * x.step]
    told = [x for x in large if x.predicted is not None]
    if told:
        errors = [abs(_error(x)) for x in told]
        right = sum(_center(x.predicted) * _center(x.measured) > 0 for x in told)
        verdicts = Counter(word(x) for x in told)
        counted = ", ".join(f"{verdicts[one]} {one}" for one in sorted(verdicts))
        kinds = {x.change.partition("=")[0] for x in large}
        error, half = (units.percent(100 * median(some)) for some in (errors, [*map(_half, told)]))
        yield (
            f"Of the {len(large)} that change the step by {units.percent(100 * LARGE)} or more, by {len(kinds)} kinds "
            f"of change, {len(told)} were predictable: sign right in {right}; {counted}; median "
            f"error {error} of the change, half-width of their intervals {half} of it (median)."
        )
    null = [
        x
        for x in both
        if x.measured and x.measured.low <= 0 <= x.measured.high and abs(x.measured.seconds) <= (x.resolution or 0)
    ]
    alarms = sum(abs(_center(x.predicted)) > (x.resolution or 0.0) for x in null)
    yield f"Of {units.counted(len(null), 'change')} that changed nothing for certain {alarms} had been predicted to."


def share(x: Prediction, of: Expected | None) -> str:
    """Per cent of the unchanged step, with the interval."""
    if of is None:
        return "–"
    center, low, high = (100 * one / x.step for one in (of.seconds, of.low, of.high))
    return f"{center:+.1f} [{low:+.1f}, {high:+.1f}]"


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
    own = (x.measured.high - x.measured.low) / 2 if error else 0.0
    return abs(x.measured.seconds - x.predicted.seconds) <= math.hypot(half, own)
