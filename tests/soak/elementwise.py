"""Are the element-wise kernels as fast as promised? Our copy and triad against the best of their rivals, our
transposition against a copy of the same bytes, our fused softmax with cross-entropy against a read of its working set:
each a contest in the suite's own rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.devices import open_device
from kernels.ops.softmax import Softmax
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from kernels.problem import Problem
from micro.command.figure import Figure
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Case, Contest
from micro.worker.process import Workers
from reports import units
from reports.record import Comparison

SECONDS = 4.0  # of a contest
PLAIN = Path(__file__).with_name("plain_stream.c")  # STREAM's own loops, as the compiler takes them
SIZES = (64 << 10, 1 << 20, 64 << 20)  # bytes of an array
RIVALS = {"copy": ("memcpy", "numpy", "torch", f"{PLAIN}:plain_copy"), "triad": (f"{PLAIN}:plain_triad",)}
SQUARES = ((256, 256), (1024, 1024), (2048, 2048), (4096, 2048))


@dataclass(frozen=True)
class Promise:
    """`ours` does at least `share` of the rate of each rival."""

    what: str
    share: float
    ours: Case
    rivals: tuple[Case, ...]
    bytes_of_both: float = 1.0  # the ratio of the bytes that they move


def streams() -> Iterator[Promise]:
    """Yield copy and triad, in each level of the caches and in memory."""
    for size in SIZES:
        for kind, names in RIVALS.items():
            problem = Stream(kind, size)
            what = f"{kind} of {units.binary(size)}"
            yield Promise(what, 0.95, Case(problem, "c"), tuple(Case(problem, name) for name in names))


def transposes() -> Iterator[Promise]:
    """Yield transpositions against copies."""
    for rows, cols in SQUARES:
        copy = Case(Stream("copy", 4 * rows * cols), "c")
        yield Promise(f"transposition of {rows}×{cols}", 0.9, Case(Transpose(rows, cols), "tiled"), (copy,))


def softmax() -> Iterator[Promise]:
    """Yield the bytes in and out against as many that are only read."""
    for want in ("step", "forward"):
        problem = Softmax(64, 26752, want=want)
        read = Case(Stream("read", problem.footprint // 64 * 64), "c")
        what = f"softmax with cross-entropy, 64×26752, {want}"
        yield Promise(what, 0.8, Case(problem, "c"), (read,), problem.bytes / read.problem.bytes)


def figures() -> Iterator[Figure]:
    """Yield whether each promise is held: it is not where the whole interval misses it."""
    with Workers() as workers:
        for promise in (*streams(), *transposes(), *softmax()):
            yield judged(promise, measured(workers, promise))


def measured(workers: Workers, promise: Promise) -> list[tuple[str, Comparison]]:
    """Return each rival's name, and its time over ours."""
    cases = (promise.ours, *promise.rivals)
    limits = {"cpu": open_device("cpu").limits()}
    contest = Contest(promise.what, "is it as promised?", "work: differs (operation)", cases)
    record = Runner(Checks(workers), limits, History("none")).run(contest, SECONDS, Budget(SECONDS))
    names = [case.variant.rpartition("/")[2] for case in promise.rivals]
    return list(zip(names, record.comparisons, strict=True))


def judged(promise: Promise, rivals: Sequence[tuple[str, Comparison]]) -> Figure:
    """Return the rate of ours over that of the best rival, and whether it may be what was promised."""
    promised = f"{promise.share:g}"
    compared = [(name, x) for name, x in rivals if x.ratio and x.low and x.high]
    if not compared:
        return Figure(promise.what, f"nothing could be measured: {rivals[0][1].reason}", promised, False)
    name, best = min(compared, key=lambda x: x[1].ratio or 0.0)
    assert best.ratio and best.low and best.high
    rate, low, high = (promise.bytes_of_both * x for x in (best.ratio, best.low, best.high))
    several = f"the best of {len(compared)}, {name}"
    against = several if len(rivals) > 1 else f"a {_operation(promise.rivals[0].problem)}"
    text = f"{units.ratio(rate, low, high)} of the rate of {against}"
    return Figure(promise.what, text, promised, high >= promise.share)


def _operation(problem: Problem) -> str:
    return f"{getattr(problem, 'kind', problem.op)} of {units.binary(problem.footprint)}"
