"""Pairs of kernels with a known ratio, and their counts: data of `python -m micro.selftest`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.stream import Stream
from micro.planning.contest import Budget, Case, Contest

NAME = "selftest"
PAIRS = (
    ("64³", Gemm(64, 64, 64), "openblas"),
    ("320×256×256", Gemm(320, 256, 256), "openblas"),
    ("triad 3×1 MiB", Stream("triad", 1 << 20), "c"),
)
MORE = (("128³ blocked", Gemm(128, 128, 128), "blocked"), ("copy 2×8 KiB", Stream("copy", 8 << 10), "c"))
MEMORY = ("triad 3×16 MiB", Stream("triad", 16 << 20), "c")
IDENTICAL, FIVE, TWO = "identical", "+5 %", "+2 %"
QUICK = {IDENTICAL: 15, FIVE: 12, TWO: 8}  # of each of PAIRS
FULL = {IDENTICAL: 150, FIVE: 24, TWO: 24}  # of each of PAIRS and MORE, quiet
SPINNING = {IDENTICAL: 60, FIVE: 12, TWO: 12}  # the same with a spinner on every core
PILOT = {IDENTICAL: 4, FIVE: 2, TWO: 2}  # of each kernel, to test first whether the machine is quiet
DISTANCE = {IDENTICAL: 0.01, FIVE: 0.04, TWO: 0.01}  # of the truth from the margin of a verdict, which is 1 %
CALLS = {FIVE: (20, 21), TWO: (50, 51)}  # in one launch: the truth is their quotient, exactly
SECONDS = {  # of measuring, quick and with --full; a chunk begun in time ends within 2
    False: {IDENTICAL: 1.0, FIVE: 1.9, TWO: 2.0},
    True: {IDENTICAL: 1.9, FIVE: 1.9, TWO: 4.0},
}
BUDGET = Budget(seconds=2.0)


@dataclass(frozen=True)
class Known:
    """A contest with a known ratio, its kind, and its kernel in words."""

    kind: str
    kernel: str
    contest: Contest


def pair(kind: str, number: int, problem: Gemm | Stream, variant: str, where: str = "") -> Contest:
    """Build two cases of one kernel: identical, or the second with a known share of more work."""
    low, high = CALLS.get(kind, (1, 1))
    names = (f"{variant}*{low}", f"{variant}*{high}" + ("~b" if low == high else ""))
    cases = tuple(Case(problem, name) for name in names)
    differs = "nothing" if kind == IDENTICAL else f"work: differs ({high} calls for {low})"
    return Contest(f"{NAME}/{kind}/{number}/{problem.name}{where}", "is the second one slower?", differs, cases)


def schedule(counts: dict[str, int], full: bool, where: str = "") -> Iterator[Known]:
    """Yield all pairs of every kind and size, in turn."""
    for kind, count in counts.items():
        for number in range(count):
            for kernel, problem, variant in PAIRS + (MORE if full else ()):
                yield Known(kind, kernel, pair(kind, number, problem, variant, where))


def bias(microseconds: int, isa: str, step: float) -> tuple[Case, Case, int]:
    """Return a chain of so many microseconds, the same work as one block, and launches per sample.

    The chain is carried from launch to launch, so that no launch overlaps the next."""
    steps = max(1, round(microseconds * 1e-6 / step))
    launches = max(1, 60 // microseconds) if microseconds < 100 else 1
    short = Case(Fma(isa, steps, 1), "c")
    return short, Case(Fma(isa, steps * max(launches, 2), 1), "c", role="ceiling"), launches
