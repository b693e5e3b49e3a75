"""The fastest kernel of this suite for a step's largest operations, each measured by itself."""

from __future__ import annotations

from collections.abc import Iterator

from macro.explaining import nominal
from macro.explaining.operation_call import Call
from macro.explaining.operation_work import alone
from macro.explaining.repeat import Kernels, best
from macro.watching.recording import Recording
from reports.breakdown import Breakdown, Fastest

MOST = 3  # operations that are measured


def kernels(call: Call) -> list[Kernels]:
    """Return the benchmarks of a call's work: two for a convolution's gradients, which are one call."""
    again = alone(call)
    if again is None:
        return []
    benchmark, options = again
    both = options.get("direction") == "dgrad" and all(call.arguments[10][:2])
    directions = ("dgrad", "wgrad") if both else (options.get("direction"),)
    return [Kernels(benchmark, {**options, "direction": x} if x else options) for x in directions]


def of(breakdown: Breakdown, recording: Recording) -> Iterator[Fastest]:
    """Measure the cells that take most, each by its largest call.
    The call's share of the cell's time is its share of the cell's work."""
    work, measured = nominal.work_of(recording.called), 0
    for cell in breakdown.cells:
        key = ((cell.row,), cell.column)
        if measured == MOST or key not in work.largest:
            continue
        size, call = work.largest[key]
        timed = [best(kernel) for kernel in kernels(call)]
        if not timed or None in timed:
            continue
        variant = " and ".join(dict.fromkeys(pair[0] for pair in timed if pair))
        seconds = sum(pair[1] for pair in timed if pair)
        took = cell.a * size / max(work.flops[key], work.bytes[key])
        left = (took - seconds) * cell.a / took
        yield Fastest(cell.row, nominal.alone_command(call), variant, seconds, took, left)
        measured += 1
