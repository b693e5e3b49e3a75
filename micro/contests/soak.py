"""What the element-wise kernels promise: our copy and triad against the best of their rivals, our transposition against
a copy of the same bytes, our fused softmax with cross-entropy against a read of its working set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernels.ops.softmax import Softmax
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from micro.planning.contest import Case
from reports import units

PLAIN = f"{Path(__file__).with_name('plain_stream.py')}:ROW"  # STREAM's own loops, as the compiler takes them
SIZES = (64 << 10, 1 << 20, 64 << 20)  # bytes of an array
SQUARES = ((256, 256), (1024, 1024), (2048, 2048), (4096, 2048))
COPIERS = ("memcpy", "numpy", "torch", PLAIN)


@dataclass(frozen=True)
class Promise:
    """`ours` does at least `share` of the rate of each rival. `bytes_of_both`: the ratio of the bytes that they move,
    where that is not one."""

    what: str
    share: float
    ours: Case
    rivals: tuple[Case, ...]
    bytes_of_both: float = 1.0


def streams() -> Iterator[Promise]:
    """Copy and triad, in each level of the caches and in memory."""
    for size in SIZES:
        for kind, names in (("copy", COPIERS), ("triad", (PLAIN,))):
            problem = Stream(kind, size)
            what = f"{kind} of {units.binary(size)}"
            yield Promise(what, 0.95, Case(problem, "c"), tuple(Case(problem, name) for name in names))


def transposes() -> Iterator[Promise]:
    """Transpositions against copies."""
    for rows, cols in SQUARES:
        copy = Case(Stream("copy", 4 * rows * cols), "c")
        yield Promise(f"transposition of {rows}×{cols}", 0.9, Case(Transpose(rows, cols), "tiled"), (copy,))


def softmax() -> Iterator[Promise]:
    """The bytes in and out against as many that are only read."""
    for want in ("step", "forward"):
        problem = Softmax(64, 26752, want=want)
        read = Case(Stream("read", problem.footprint // 64 * 64), "c")
        what = f"softmax with cross-entropy, 64×26752, {want}"
        yield Promise(what, 0.8, Case(problem, "c"), (read,), problem.bytes / read.problem.bytes)
