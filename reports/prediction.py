"""Predictions as text: expected and measured effects of changes, verdicts, and advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from reports import units
from reports.record import Expected, Prediction, Run

NEAR = 0.1  # share of the measured effect by which a confirmed prediction may be off
UNDECIDED = "undecided: right or wrong within the error of what was measured; more rounds tell"
COARSE = 0.02  # share of a step: a resolution above this gets a hint on remedies
FINER = "; a longer --budget or huge pages for all memory reduce this (docs/method.md)"
LEFT_OUT = "left out after"  # first words of the reason of a change that was timed for some rounds alone
ADVICE = "advice"  # topic of the note
HEAD = ("change", "predicted", "measured", "of the step", "off by", "verdict")


def text(predictions: Sequence[Prediction]) -> str:
    """Return a table for each changed step, with its sentences and the parts of each prediction."""
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
        "Effect of each change on this time (negative: faster; 90 % intervals):"
    )
    yield from _aligned([HEAD, *map(_row, predictions)])
    resolved = {(x.contest, x.resolution): x for x in predictions if x.resolution is not None}
    for key, x in resolved.items():
        assert x.resolution is not None
        names = [other.change for other in predictions if (other.contest, other.resolution) == key]
        of = f" ({', '.join(names)})" * (len(resolved) > 1)
        yield (
            f"Resolution{of}: two unchanged steps in the same rounds differ by up to "
            f"{units.seconds(x.resolution)}, "
            f"{units.percent(100 * x.resolution / x.step)} of a step{FINER * (x.resolution > COARSE * x.step)}."
        )
    yield from _interactions(predictions)
    for x in predictions:
        yield from _behind(x)


def _interactions(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield the interactions of combined changes: the effect beyond the sum of the single effects."""
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
        yield f"  {x.change}: interaction (beyond the sum) {units.signed(beyond)}, {word} its error, {error}"


def _row(x: Prediction) -> tuple[str, ...]:
    share = "–" if x.measured is None else f"{100 * x.measured.seconds / x.step:+.1f} %"
    return x.change, _seconds(x.predicted), _seconds(x.measured), share, off(x), word(x)


def word(x: Prediction) -> str:
    """Return the verdict, `undecided` if more rounds may decide it, or a dash."""
    return x.verdict or ("undecided" if x.reason == UNDECIDED else "–")


def off(x: Prediction) -> str:
    """Return the difference of prediction and measurement, in per cent of the measured effect.

    It is a dash without a verdict, or for changes below resolution."""
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
    largest = sorted((part for part in x.parts.items() if part[1]), key=lambda part: -abs(part[1]))[:4]
    if largest and len(x.parts) > 1:
        yield f"    predicted from {', '.join(f'{what} {units.signed(seconds)}' for what, seconds in largest)}"
    if x.reason:
        yield f"  {x.change}: {x.reason}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()


def advice(run: Run) -> list[str]:
    """Return the texts of a run's advice notes."""
    return ["\n".join(_lines(note.data, run)) for note in run.notes if note.topic == ADVICE]


def _lines(data: dict[str, object], run: Run) -> Iterator[str]:
    by_name = {prediction.change: prediction for prediction in run.predictions}
    order, winner, tried = (data.get(name) or [] for name in ("order", "winner", "tried"))
    assert isinstance(order, list) and isinstance(tried, list)
    if not winner:
        least = units.percent(100 * float(str(data["worth"])))
        yield f"Of {units.counted(len(tried), 'change')} tried, none certainly saves {least} of a step."
    else:
        best = by_name[str(winner)]
        results = "equal results proven" if best.batch else "results not compared"
        yield f"{_saves(best)} with {best.change}, {results}. Changes that help, best first:"
    for number, name in enumerate(order, start=1):
        x = by_name[name]
        yield f"  {number}. {x.change}: {_saves(x)}; predicted: {_agrees(x)}; costs: {x.costs}"
    if winner and "+" in str(winner):
        x = by_name[str(winner)]
        yield f"  together: {_saves(x)}; predicted from each alone: {_agrees(x)}; costs: {x.costs}"
    rest = [by_name[name] for name in tried if name not in order]
    if more := [x for x in rest if _certain(x)]:
        yield f"Saves, too, but is not in the best combination: {', '.join(map(_brought, more))}."
    if others := [x for x in rest if not _certain(x)]:
        yield f"Tried, without a certain saving: {', '.join(map(_brought, others))}."
    if left := [x for x in run.predictions if x.change not in tried and "+" not in x.change]:
        yield "Not tried: " + "; ".join(f"{x.change} ({x.reason or 'no saving predicted'})" for x in left) + "."
    edits = data.get("edits") or {}
    assert isinstance(edits, dict)
    for name, (code, share) in edits.items():
        yield f"Not tried, as it requires an edit of the script: {name}, {code}; saves {100 * share:.1f} % at most."
    if winner:
        yield "To apply the best:"
        yield from (f"  {line}" for line in str(data["shell"]).splitlines() if not line.startswith("# " + str(winner)))


def _certain(x: Prediction) -> bool:
    """Return whether a change certainly saves time, and more than the difference of two unchanged steps."""
    return x.measured is not None and x.measured.high < 0 and -x.measured.seconds > (x.resolution or 0.0)


def _saves(x: Prediction) -> str:
    measured = x.measured
    if measured is None:
        return "not measured"
    low, center, high = (100 * -seconds / x.step for seconds in (measured.high, measured.seconds, measured.low))
    return f"a step takes {center:.1f} % less [{low:.1f}, {high:.1f}]"


def _agrees(x: Prediction) -> str:
    if x.predicted is None:
        return "not predictable"
    return f"{-100 * x.predicted.seconds / x.step:.1f} %, {'not judged' if word(x) == '–' else word(x)}"


def _brought(x: Prediction) -> str:
    if x.measured is None:
        return f"{x.change} ({x.reason})"
    return f"{x.change} ({100 * x.measured.seconds / x.step:+.1f} %)"
