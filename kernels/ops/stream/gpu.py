"""Launch geometry of the kernels of stream.cu."""

from __future__ import annotations

from pathlib import Path

from kernels.nvcc import Argument, Geometry, refuse_other
from kernels.ops.stream.problem import Stream

SOURCE = Path(__file__).with_name("stream.cu")
KERNELS = ("stream_read", "stream_copy", "stream_triad")
THREADS = 256
RESIDENT = 8  # blocks of 256 that a multiprocessor of sm_80, sm_90 or sm_100 holds: 2048 threads
H100 = 132  # multiprocessors (SXM); with a device, its own number is passed


def launches(problem: Stream, kernel: str, processors: int = H100) -> tuple[Geometry, ...]:
    """Return one launch of as many blocks as are resident, for a read also one that adds up their sums.

    Raises UsageError.
    """
    refuse_other(SOURCE, kernel, problem, f"stream_{problem.kind}")
    blocks = max(1, min(-(-problem.count // (4 * THREADS)), RESIDENT * processors))
    if problem.kind != "read":
        names = [x.name for x in problem.operands()]
        return (_launch(kernel, blocks, *(("operand", name) for name in names), ("int64", problem.count)),)
    partial: Argument = ("workspace", 4 * blocks)
    return (
        _launch(kernel, blocks, ("operand", "a"), partial, ("int64", problem.count)),
        _launch(kernel, 1, partial, ("operand", "y"), ("int64", blocks)),
    )


def _launch(kernel: str, blocks: int, *arguments: Argument) -> Geometry:
    return Geometry(kernel, (blocks, 1, 1), (THREADS, 1, 1), arguments)
