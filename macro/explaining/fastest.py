"""The fastest kernel of this suite for a step's largest operations, each measured by itself."""

from __future__ import annotations

from collections.abc import Iterator

from macro.explaining import nominal
from macro.explaining.operation_work import alone
from macro.explaining.repeat import Kernels, best
from macro.watching.recording import Recording
from reports.breakdown import Breakdown, Fastest

MOST = 3  # operations that are measured


def of(found: Breakdown, recording: Recording) -> Iterator[Fastest]:
    """Of the cells that take most; each by its largest call, whose share of the cell is that of its work."""
    work, measured = nominal.work_of(recording.called), 0
    for cell in found.cells:
        key = ((cell.row,), cell.column)
        if measured == MOST or key not in work.largest:
            continue
        size, call = work.largest[key]
        again = alone(call)
        fastest = best(Kernels(*again)) if again else None
        if fastest is None:
            continue
        variant, seconds = fastest
        took = cell.a * size / max(work.flops[key], work.bytes[key])
        left = (took - seconds) * cell.a / took
        yield Fastest(cell.row, nominal.alone_command(call), variant, seconds, took, left)
        measured += 1
