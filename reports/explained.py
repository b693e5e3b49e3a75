"""What a run holds of explanations: of one step, and of the gap between two."""

from __future__ import annotations

from reports import attribution, step
from reports.record import Run

TOPICS = (attribution.TOPIC, step.TOPIC)  # of their notes


def texts(run: Run) -> list[str]:
    """What a person reads, one for each."""
    return [*map(attribution.text, attribution.of(run)), *map(step.text, step.of(run))]
