"""Pairs of kernels with a known ratio, their counts, and the promised limits of the self-test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
DISTANCE = {IDENTICAL: 0.01, FIVE: 0.04, TWO: 0.01}  # of the known ratio from a verdict's margin, which is 1 %
CALLS = {FIVE: (20, 21), TWO: (50, 51)}  # in a launch of each case: the known ratio is exactly their quotient
SECONDS = {  # of measuring, quick and with --full; a chunk begun in time ends within 2
    False: {IDENTICAL: 1.0, FIVE: 1.9, TWO: 2.0},
    True: {IDENTICAL: 1.9, FIVE: 1.9, TWO: 4.0},
}
BUDGET = Budget(seconds=2.0)
# Promises of the self-test on a machine, and their limits.
NOT_DIFFERENT, SAME = "identical pairs not called different", "identical pairs called same"
SLOWER_5, SLOWER_2 = "+5 % called slower", "+2 % called slower"
HOLDS = "95 % intervals of identical pairs that hold 1"
RATES: tuple[Mapping[str, float], Mapping[str, float]] = (  # least share: quiet, and with a spinner on every core
    {NOT_DIFFERENT: 0.985, SAME: 0.90, SLOWER_5: 0.90, SLOWER_2: 0.85, HOLDS: 0.92},
    {NOT_DIFFERENT: 0.985, SAME: 0.75, SLOWER_5: 0.90, SLOWER_2: 0.75},
)
KERNEL = 0.90  # least share of intervals that contain 1, for the worst kernel, with --full
PAIR_SECONDS = {"median": (0.25, 0.5), "worst": (2.0, 2.0)}  # of a pair: quiet, and with spinners
BIAS = {1: 0.005, 10: 0.001, 100: 0.001}  # of the loop, by microseconds of a launch
# Standard errors that 9 of 10 ratios do not exceed: with half of a verdict's interval they have to fit between the
# known ratio and the margin for 9 of 10 verdicts to be resolved.
NINE = 1.28
NOISY = 0.1  # share of the pilot's time that others took above which quiet figures are not judged
_TEXT = """\
Promises for this machine; each is a rate that holds if its complete 95 % Wilson interval lies inside:
 1. a kernel against itself is called different in at most {alarms:g} % of contests;
 2. 5 % more work is called slower in at least {five:g} % of contests, 2 % more in {two:g} %;
 3. 95 % intervals contain a known ratio in at least {holds:g} % of contests, worst kernel {kernel:g} % (--full);
 4. the next run lies in its reported range for 93 to 98 % of all pairs, and for no pair certainly less (--full).
Method: 1 to 3 by kernels with a known ratio, in short visits; 4 by different kernels, on every path that a contest
 can take, 20 runs each, in fresh processes and shuffled order (--full, one hour). Too noisy kernels are named first.
Not promised: a ratio on another machine, a latency, a path that was not measured; nor that a malicious kernel is
 caught: it runs in the process that times it, and can patch the harness.
Exit code: 0 if all promises hold or are not judged, else 1. Later reports on this machine show the figures."""
EXPLAINED = _TEXT.format(
    alarms=round(100 * (1 - RATES[0][NOT_DIFFERENT]), 6),
    five=100 * RATES[0][SLOWER_5],
    two=100 * RATES[0][SLOWER_2],
    holds=100 * RATES[0][HOLDS],
    kernel=100 * KERNEL,
)


@dataclass(frozen=True)
class Known:
    """A contest with a known ratio, its kind of pair, and its kernel's name in figures."""

    kind: str
    kernel: str
    contest: Contest


def pair(kind: str, number: int, problem: Gemm | Stream, variant: str, where: str = "") -> Contest:
    """Build a contest of a kernel against itself, identical or with a known share of additional work."""
    low, high = CALLS.get(kind, (1, 1))
    names = (f"{variant}*{low}", f"{variant}*{high}" + ("~b" if low == high else ""))
    cases = tuple(Case(problem, name) for name in names)
    differs = "nothing" if kind == IDENTICAL else f"work: differs ({high} calls for {low})"
    return Contest(f"{NAME}/{kind}/{number}/{problem.name}{where}", "is the second one slower?", differs, cases)


def schedule(counts: dict[str, int], full: bool, where: str = "") -> Iterator[Known]:
    """Yield the pairs of every kind, alternating between kernels."""
    for kind, count in counts.items():
        for number in range(count):
            for kernel, problem, variant in PAIRS + (MORE if full else ()):
                yield Known(kind, kernel, pair(kind, number, problem, variant, where))


def bias(microseconds: int, isa: str, step: float) -> tuple[Case, Case, int]:
    """Return a chain of so many microseconds, a chain several times as long, and launches per sample.

    Each launch continues the dependency chain of the previous launch, so that launches do not overlap."""
    steps = max(1, round(microseconds * 1e-6 / step))
    launches = max(1, 60 // microseconds) if microseconds < 100 else 1
    short = Case(Fma(isa, steps, 1), "c")
    return short, Case(Fma(isa, steps * max(launches, 2), 1), "c", role="ceiling"), launches
