"""The harness measured: false alarms, detection, intervals, bias, on kernels whose truth is known."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.stream import Stream
from micro.command.line import guarded
from micro.planning.contest import Budget, Case, Contest
from micro.planning.options import Parser

NAME = "selftest"
PAIRS = (
    ("64³", Gemm(64, 64, 64), "openblas"),
    ("320×256×256", Gemm(320, 256, 256), "openblas"),
    ("triad 3×1 MiB", Stream("triad", 1 << 20), "c"),
)
MORE = (("128³ blocked", Gemm(128, 128, 128), "blocked"), ("copy 2×8 KiB", Stream("copy", 8 << 10), "c"))
MEMORY = ("triad 3×16 MiB", Stream("triad", 16 << 20), "c")
PER_SIZE = {"identical": 50, "+5 %": 20, "+2 %": 20}
CALLS = {"+5 %": (20, 21), "+2 %": (50, 51)}  # in one launch: the truth is their quotient, exactly
FIXED = 128  # rounds at which the interval of identical pairs is judged
SECONDS = {"identical": 1.9, "+5 %": 1.9, "+2 %": 4.0}  # of measuring; a chunk begun in time ends within 2
BUDGET = Budget(seconds=2.0)


def pair(kind: str, number: int, problem: Gemm | Stream, variant: str) -> Contest:
    """Two cases of one kernel: identical, or the second with a known share of work more."""
    low, high = CALLS.get(kind, (1, 1))
    names = (f"{variant}*{low}", f"{variant}*{high}" + ("~b" if low == high else ""))
    cases = tuple(Case(problem, name) for name in names)
    differs = "nothing" if kind == "identical" else f"work: differs ({high} calls for {low})"
    return Contest(f"{NAME}/{kind}/{number}/{problem.name}", "is the second one slower?", differs, cases)


def bias(microseconds: int, isa: str, step: float) -> tuple[Case, Case, int]:
    """A chain of so many microseconds, launched as often as fills a visit, and the same as one block.

    The chain is carried from launch to launch, so that no launch overlaps the next.
    """
    steps = max(1, round(microseconds * 1e-6 / step))
    launches = max(1, 60 // microseconds) if microseconds < 100 else 1
    short = Case(Fma(isa, steps, 1), "c")
    return short, Case(Fma(isa, steps * max(launches, 2), 1), "c", role="ceiling"), launches


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(f"python -m micro.{NAME}", description=__doc__, allow_abbrev=False)
    made.add_argument("--full", action="store_true", help="five sizes, and again with a spinner on every core")
    made.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file, JSON lines")
    made.add_argument("--json", metavar="FILE", help="write the figures as JSON (- is stdout)")
    made.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 where every figure is as promised or the machine too busy for it, else 1."""
    arguments = parser().parse_args(argv)
    from micro.command.selftest import Selftest

    return guarded(f"micro.{NAME}", Selftest(arguments).run)


if __name__ == "__main__":
    sys.exit(main())
