"""One document: `{format, environment, results[], comparisons[], notes[]}`; of an attribution, itself."""

from __future__ import annotations

import json
from typing import IO

from reports import explained
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
    }
    stream.write(msgspec.json.encode(document).decode() + "\n")


def write_attribution(run: Run, stream: IO[str]) -> None:
    """As it stands in the run file, a line for each."""
    for note in run.notes:
        if note.topic in explained.TOPICS:
            stream.write(json.dumps(note.data) + "\n")
