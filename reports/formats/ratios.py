"""CSV of comparisons: ratio, interval, verdict, both times, the axes that the two cases share."""

from __future__ import annotations

from dataclasses import fields
from typing import IO

from reports.flat import comparisons
from reports.formats.csv import write_rows
from reports.record import Comparison, Run

ENDINGS = (".csv",)


def write(run: Run, stream: IO[str]) -> None:
    write_rows(comparisons(run), [field.name for field in fields(Comparison)], stream)
