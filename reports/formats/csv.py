"""A row for each case: base units, full precision, stable columns."""

from __future__ import annotations

import csv
from typing import IO

from reports.record import Run

COLUMNS = (
    "contest", "role", "name", "op", "variant", "device", "threads", "status", "reason", "median_seconds",
    "low_seconds", "high_seconds", "flops_per_second", "bytes_per_second", "percent_of_ceiling", "ceiling",
    "error", "error_bound", "kernel", "isa_observed", "blas", "clock", "launches", "uses", "repeat",
)  # fmt: skip


def write(run: Run, stream: IO[str]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    axes = list(dict.fromkeys(name for result in run.results for name in result.problem))
    writer.writerow([*COLUMNS, *axes])
    for result in run.results:
        times = result.seconds
        known = {
            "median_seconds": times.median if times else None,
            "low_seconds": times.low if times else None,
            "high_seconds": times.high if times else None,
        }
        row = [known[name] if name in known else getattr(result, name) for name in COLUMNS]
        writer.writerow([*row, *(result.problem.get(name) for name in axes)])
