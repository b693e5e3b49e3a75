"""Predictions as text: the expected and the measured effect of each change, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from reports import units
from reports.record import Expected, Prediction

NEAR = 0.1  # share of the measured effect by which a confirmed prediction may be off
UNDECIDED = "undecided: right or wrong within the error of what was measured; more rounds tell"
COARSE = 0.02  # of a step: a resolution for which there are remedies
FINER = "; more time tells them apart, and huge pages for all memory make them alike (docs/method.md)"
LEFT_OUT = "left out after"  # first words of the reason of a change that was timed for some rounds alone
HEAD = ("change", "predicted", "measured", "of the step", "off by", "verdict")


def text(predictions: Sequence[Prediction]) -> str:
    """Return a table for each step that is changed, with sentences and the parts behind."""
    steps = list(dict.fromkeys(map(_step, predictions)))
    return "\n\n".join("\n".join(_section([x for x in predictions if _step(x) == step])) for step in steps)


def _step(x: Prediction) -> tuple[str, str, int, str, int]:
    return x.network, x.framework, x.batch, x.phase, x.threads


def _section(predictions: Sequence[Prediction]) -> Iterator[str]:
    first = next((x for x in predictions if x.measured), predictions[0])
    threads = units.counted(first.threads, "thread")
    where = f", batch {first.batch}, in {first.framework}" if first.batch else ""  # a user's program has none
    yield (
        f"A {first.phase} of {first.network}{where}, {threads}, takes {units.seconds(first.step)}. "
        "Its time with each change less that without (below zero: faster; 90 % intervals):"
    )
    yield from _aligned([HEAD, *map(_row, predictions)])
    resolved = {(x.contest, x.resolution): x for x in predictions if x.resolution is not None}
    for key, x in resolved.items():
        assert x.resolution is not None
        names = [other.change for other in predictions if (other.contest, other.resolution) == key]
        of = f" ({', '.join(names)})" * (len(resolved) > 1)
        yield (
            f"Resolution{of}: two unchanged steps in the same rounds are alike to within "
            f"{units.seconds(x.resolution)}, "
            f"{units.percent(100 * x.resolution / x.step)} of a step{FINER * (x.resolution > COARSE * x.step)}."
        )
    yield from _interactions(predictions)
    for x in predictions:
        yield from _behind(x)


def _interactions(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield the interactions of changes made at once: the effect beyond the sum of each."""
    alone = {(x.change, x.contest): x.measured for x in predictions if x.measured}
    for x in predictions:
        parts = [alone.get((word, x.contest)) for word in x.change.split("+")]
        if x.measured is None or len(parts) < 2 or not all(parts):
            continue
        known = [part for part in parts if part]
        beyond = x.measured.seconds - sum(part.seconds for part in known)
        resolution = math.sqrt(sum(((part.high - part.low) / 2) ** 2 for part in (x.measured, *known)))
        word = "more than" if abs(beyond) > resolution else "within"
        error = units.seconds(resolution)
        yield f"  {x.change}: interaction, beyond the sum of each {units.signed(beyond)}, {word} its error of {error}"


def _row(x: Prediction) -> tuple[str, ...]:
    share = "–" if x.measured is None else f"{100 * x.measured.seconds / x.step:+.1f} %"
    return x.change, _seconds(x.predicted), _seconds(x.measured), share, off(x), word(x)


def word(x: Prediction) -> str:
    """Return the verdict, or that it is open."""
    return x.verdict or ("undecided" if x.reason == UNDECIDED else "–")


def off(x: Prediction) -> str:
    """Return the difference of prediction and measurement, in per cent of the latter.

    A dash for changes below resolution."""
    judged = word(x) in ("confirmed", "refuted", "undecided")
    if not judged or x.predicted is None or x.measured is None or not x.measured.seconds:
        return "–"
    return f"{100 * abs(x.predicted.seconds - x.measured.seconds) / abs(x.measured.seconds):.0f} %"


def _seconds(x: Expected | None) -> str:
    if x is None:
        return "–"
    return f"{units.signed(x.seconds)} [{units.signed(x.low)}, {units.signed(x.high)}]"


def _behind(x: Prediction) -> Iterator[str]:
    if x.effect:
        yield f"  {x.change}: {x.effect}; costs: {x.costs or 'nothing'}"
    largest = sorted(x.parts.items(), key=lambda part: -abs(part[1]))[:4]
    if len(largest) > 1:
        yield f"    predicted of {', '.join(f'{what} {units.signed(seconds)}' for what, seconds in largest)}"
    if x.reason:
        yield f"  {x.change}: {x.reason}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
