"""CSV of cases, with each case's ceilings as columns: base units, full precision, stable columns."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import IO, Any

from reports.flat import COLUMNS, results
from reports.record import Run

ENDINGS = (".csv",)


def write(run: Run, stream: IO[str]) -> None:
    write_rows(results(run), COLUMNS, stream)


def write_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], stream: IO[str]) -> None:
    """Write rows below a head of their keys, or of `columns` if there are no rows."""
    writer = csv.DictWriter(stream, list(rows[0]) if rows else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
