"""Texts of a run: explanations, tables of the literature, advice, predictions."""

from __future__ import annotations

from reports import advice, attribution, prediction, step
from reports.record import Run

TABLE = "table"
TOPICS = (attribution.TOPIC, step.TOPIC, TABLE)  # of their notes


def of(run: Run) -> list[str]:
    """Return all texts of a run, in the order in which they are printed."""
    predictions = [prediction.text(run.predictions)] if run.predictions else []
    steps = [*map(attribution.text, attribution.of(run)), *map(step.text, step.of(run))]
    return [*steps, *tables(run), *advice.texts(run), *predictions]


def tables(run: Run) -> list[str]:
    """Return the last version of each table."""
    return list({str(x.data.get("table")): str(x.data["text"]) for x in run.notes if x.topic == TABLE}.values())
