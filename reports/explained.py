"""What a run holds that a person reads whole: explanations of a step and of the gap between two; tables of the
literature; predictions."""

from __future__ import annotations

from reports import advice, attribution, authors, prediction, step
from reports.record import Run

TABLE = "table"
TOPICS = (attribution.TOPIC, step.TOPIC, TABLE)  # of their notes


def texts(run: Run) -> list[str]:
    """What a person reads, one for each."""
    gaps = ["\n".join([attribution.text(x), *authors.lines(x)]) for x in attribution.of(run)]
    told = [prediction.text(run.predictions)] if run.predictions else []
    return [*gaps, *map(step.text, step.of(run)), *tables(run), *advice.texts(run), *told]


def tables(run: Run) -> list[str]:
    """Of each the last."""
    return list({str(x.data.get("table")): str(x.data["text"]) for x in run.notes if x.topic == TABLE}.values())
