"""Advice in sentences: the changes that help, in order, their cost, and what was tried in vain."""

from __future__ import annotations

from collections.abc import Iterator

from reports import units
from reports.prediction import word
from reports.record import Prediction, Run

TOPIC = "advice"


def texts(run: Run) -> list[str]:
    """Return a text for each advice of a run."""
    return ["\n".join(_lines(note.data, run)) for note in run.notes if note.topic == TOPIC]


def _lines(data: dict[str, object], run: Run) -> Iterator[str]:
    by_name = {prediction.change: prediction for prediction in run.predictions}
    order, winner, tried = (data.get(name) or [] for name in ("order", "winner", "tried"))
    assert isinstance(order, list) and isinstance(tried, list)
    if not winner:
        least = units.percent(100 * float(str(data["worth"])))
        yield f"Of {units.counted(len(tried), 'change')} tried none certainly makes a step faster by {least}."
    else:
        best = by_name[str(winner)]
        results = "equal results proven" if best.batch else "its results were not compared"
        yield f"{_saves(best)} with {best.change}, {results}. What helps, in order:"
    for number, name in enumerate(order, start=1):
        x = by_name[name]
        yield f"  {number}. {x.change}: {_saves(x)}; predicted: {_agrees(x)}; changes: {x.costs}"
    if winner and "+" in str(winner):
        x = by_name[str(winner)]
        yield f"  together: {_saves(x)}; predicted from each alone: {_agrees(x)}; changes: {x.costs}"
    rest = [by_name[name] for name in tried if name not in order]
    if more := [x for x in rest if _certain(x)]:
        yield f"Saves too, and is not among the best that go together: {', '.join(map(_brought, more))}."
    if others := [x for x in rest if not _certain(x)]:
        yield f"Tried, without a saving that is certain: {', '.join(map(_brought, others))}."
    if left := [x for x in run.predictions if x.change not in tried and "+" not in x.change]:
        yield "Not tried: " + "; ".join(f"{x.change} ({x.reason or 'nothing to be won'})" for x in left) + "."
    edits = data.get("edits") or {}
    assert isinstance(edits, dict)
    for name, (code, share) in edits.items():
        yield f"Not tried, an edit of the program: {name}, {code}; it saves {100 * share:.1f} % at most."
    if winner:
        yield "To have it:"
        yield from (f"  {line}" for line in str(data["shell"]).splitlines() if not line.startswith("# " + str(winner)))


def _certain(x: Prediction) -> bool:
    """Return whether a change saves more than two unchanged steps differ by."""
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
