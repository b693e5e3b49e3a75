"""CSV of cases, with the ceilings beside each as columns: base units, full precision, stable columns."""

from __future__ import annotations

import csv
from typing import IO

from reports.flat import COLUMNS, results
from reports.record import Run

ENDINGS = (".csv",)


def write(run: Run, stream: IO[str]) -> None:
    rows = results(run)
    writer = csv.DictWriter(stream, list(rows[0]) if rows else COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
