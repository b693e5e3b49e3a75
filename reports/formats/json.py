"""One document: `{format, environment, results[], comparisons[], notes[]}`."""

from __future__ import annotations

from typing import IO

from reports.record import FORMAT, Run


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
