"""JSON in one document: `{format, environment, results[], comparisons[], notes[], predictions[]}`.

The key `predictions` is left out if there are none. An attribution is written as in the run file."""

from __future__ import annotations

import json
from typing import IO

from reports import findings
from reports.record import FORMAT, Run

ENDINGS = (".json",)


def write(run: Run, stream: IO[str]) -> None:
    import msgspec

    document = {
        "format": FORMAT,
        "environment": run.environment,
        "results": run.results,
        "comparisons": run.comparisons,
        "notes": run.notes,
        **({"predictions": run.predictions} if run.predictions else {}),
    }
    stream.write(msgspec.json.encode(document).decode() + "\n")


def write_attribution(run: Run, stream: IO[str]) -> None:
    """Write attributions as in the run file, a line for each."""
    topics = [topic for topic in findings.TOPICS if any(note.topic == topic for note in run.notes)]
    for note in run.notes:
        if note.topic in topics[:1]:  # of a gap, without the breakdowns of its two sides
            stream.write(json.dumps(note.data) + "\n")
