"""CSV of comparisons: ratio, interval, verdict, both times, the axes that the two cases share."""

from __future__ import annotations

import csv
from dataclasses import fields
from typing import IO

from reports.flat import comparisons
from reports.record import Comparison, Run

ENDINGS = (".csv",)


def write(run: Run, stream: IO[str]) -> None:
    rows = comparisons(run)
    names = list(rows[0]) if rows else [field.name for field in fields(Comparison)]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
