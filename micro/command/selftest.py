"""Runs the pairs of micro/contests/selftest.py and turns them into figures with intervals and promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import state
from kernels.devices import open_device
from kernels.ops.fma import Fma
from micro.command import figure
from micro.command.figure import Figure
from micro.command.session import Session, session
from micro.contests import selftest
from micro.measuring.rounds import Goal, measure
from micro.measuring.workers import Crew
from micro.planning.contest import Case
from micro.planning.options import Outputs
from reports import record, stats

if TYPE_CHECKING:
    from kernels.ops.gemm import Gemm
    from kernels.ops.stream import Stream

BUSY = 0.1  # share of contended pairs above which a figure says the machine was too busy for it
PROMISES = {  # least hits of so many trials: quiet, and with a spinner on every core
    "identical pairs not called different": (299 / 300, 149 / 150),
    "identical pairs called same": (145 / 150, 135 / 150),
    "+5 % called slower": (59 / 60, 58 / 60),
    "+2 % called slower": (57 / 60, 50 / 60),
    f"95 % interval at {selftest.FIXED} rounds holds 1": (135 / 150, None),
}
SECONDS = {"median": (0.2, 0.5), "worst": (2.0, 2.0)}
BIAS = {1: 0.005, 10: 0.001, 100: 0.001}


@dataclass(frozen=True)
class Options:
    """What the command was asked for."""

    full: bool = False
    output: Path | None = None
    json: str | None = None
    quiet: bool = False


@dataclass
class Pair:
    """A finished pair: its verdict, seconds until it, whether the fixed interval holds 1, contention."""

    kind: str
    verdict: str
    seconds: float
    holds: bool | None
    contended: bool


def run(options: Options) -> int:
    """The whole command; its exit code."""
    phases = 4 if options.full else 3
    outputs = Outputs(output=options.output, quiet=options.quiet)
    with session("selftest", [open_device("cpu")], phases, outputs) as at:
        figures = Selftest(at, options.full).figures()
        at.file.append(record.Note("selftest", {"figures": figure.data(figures)}))
    _say(figures, at.environment, options.json)
    return figure.exit_code(figures)


class Selftest:
    """Measures in an open session."""

    def __init__(self, at: Session, full: bool) -> None:
        self._file, self._progress, self._runner = at.file, at.progress, at.runner
        self._full = full
        self._sizes = selftest.PAIRS + (selftest.MORE if full else ())

    def figures(self) -> list[Figure]:
        began = time.monotonic()
        figures = [*self._figures("quiet", 0), *self._biases(), *self._memory()]
        if self._full:
            with spinners():
                figures += self._figures("a spinner on every core", 1)
        return [*figures, Figure("whole self-test", f"{time.monotonic() - began:.0f} s", "", True)]

    def _figures(self, condition: str, column: int) -> list[Figure]:
        """The pairs of every kind and size, in turn, and what their counts say."""
        self._progress.begin(f"pairs, {condition}")
        pairs = [self._pair(*one) for one in self._schedule(column)]
        share = sum(pair.contended for pair in pairs) / len(pairs)
        busy = f"{share:.0%} of the pairs were contended" if share > BUSY and column == 0 else None
        suffix = f" ({condition})"
        identical = [pair for pair in pairs if pair.kind == "identical"]
        counted: list[tuple[str, list[bool]]] = [
            ("identical pairs not called different", [p.verdict in ("same", "unresolved") for p in identical]),
            ("identical pairs called same", [p.verdict == "same" for p in identical]),
            ("+5 % called slower", [p.verdict == "slower" for p in pairs if p.kind == "+5 %"]),
            ("+2 % called slower", [p.verdict == "slower" for p in pairs if p.kind == "+2 %"]),
        ]
        if column == 0:
            name = f"95 % interval at {selftest.FIXED} rounds holds 1"
            counted.append((name, [bool(p.holds) for p in identical if p.holds is not None]))
        figures = [self._count(name, hits, column, suffix, busy) for name, hits in counted]
        if column == 1:  # beside a spinner a small difference may be missed where the result says contended
            missed = [p for p in pairs if p.kind == "+2 %" and p.verdict != "slower"]
            marked = sum(p.contended for p in missed)
            name, counts = "+2 % missed but marked contended" + suffix, f"{marked} of {len(missed)}"
            figures.append(Figure(name, counts, "all", marked == len(missed)))
        return [*figures, self._seconds(pairs, column, suffix, busy)]

    def _schedule(self, column: int) -> Iterator[tuple[str, int, Gemm | Stream, str]]:
        for kind, count in selftest.PER_SIZE.items():
            many = count * 2 if self._full and column == 0 and kind == "identical" else count
            per_size = max(1, round(many * len(selftest.PAIRS) / len(self._sizes)))
            for number in range(per_size):
                for _, problem, variant in self._sizes:
                    yield kind, number, problem, variant

    def _pair(self, kind: str, number: int, problem: Gemm | Stream, variant: str) -> Pair:
        contest = selftest.pair(kind, number, problem, variant)
        fixed = selftest.FIXED if kind == "identical" else 0
        done, measurement = self._runner.take(contest, selftest.SECONDS[kind], selftest.BUDGET, at_least=fixed)
        self._file.append(done)
        self._progress.say(f"{kind} {number} {problem.name}")
        contended = any(result.status == "contended" for result in done.results if result.role == "measured")
        if measurement is None:
            return Pair(kind, "not comparable", 0.0, None, contended)
        holds = None
        x = measurement.logs(0, 1)[: selftest.FIXED]
        if fixed and len(x) == selftest.FIXED and (interval := stats.interval(x, 0.05)):
            holds = interval.low <= 1 <= interval.high
        return Pair(kind, done.comparisons[0].verdict, measurement.seconds, holds, contended)

    def _count(self, name: str, hits: list[bool], column: int, suffix: str, busy: str | None) -> Figure:
        n, k = len(hits), sum(hits)
        low, high = stats.wilson(k, n)
        share = PROMISES[name][column]
        assert share is not None
        least = round(share * n - 0.5 + 1e-9) if share < 0.99 else n - max(1, round((1 - share) * n))
        promised = f"at least {least}"
        return Figure(name + suffix, f"{k} of {n} [{low:.3f}, {high:.3f}]", promised, k >= least, busy)

    def _seconds(self, pairs: Sequence[Pair], column: int, suffix: str, busy: str | None) -> Figure:
        took = sorted(pair.seconds for pair in pairs if pair.kind in ("identical", "+5 %"))
        median, worst = took[len(took) // 2], took[-1]
        limits = SECONDS["median"][column], SECONDS["worst"][column]
        held = median <= limits[0] and worst <= limits[1]
        found = f"median {median:.2f}, worst {worst:.2f}"
        promised = f"{limits[0]} and {limits[1]:g}"
        return Figure("seconds a pair, identical and +5 %" + suffix, found, promised, held, busy)

    def _biases(self) -> Iterator[Figure]:
        """What the loop adds to a launch of known length."""
        from kernels.devices.cpu import instruction_sets

        self._progress.begin("bias of the loop")
        isa = instruction_sets()[-1]
        probe = Case(Fma(isa, 10_000, 1), "c")
        step = self._ratio((probe, replace(probe, role="ceiling")), 64)[1] / 10_000
        for microseconds, limit in BIAS.items():
            short, block, launches = selftest.bias(microseconds, isa, step)
            shown, _ = self._ratio((short, block), 512)
            assert shown is not None
            scale = block.problem.steps / short.problem.steps  # type: ignore[attr-defined]
            low, mid, high = (100 * (end * scale - 1) for end in (shown.low, shown.center, shown.high))
            held = low <= 100 * limit and high >= -100 * limit
            yield Figure(
                f"bias of the loop at {microseconds} µs ({launches} launches a visit)",
                f"{mid:+.3f} % [{low:+.3f}, {high:+.3f}]",
                f"{100 * limit:g} %",
                held,
            )
        empty = Case(Fma(isa, 1, 1), "c")
        yield Figure("a launch of one multiply-add", f"{1e9 * self._ratio((empty, probe), 64)[1]:.1f} ns", "", True)
        resolution = time.clock_getres(time.CLOCK_MONOTONIC)
        yield Figure("resolution of the clock", f"{1e9 * resolution:g} ns", "", True)

    def _ratio(self, cases: tuple[Case, Case], rounds: int) -> tuple[stats.Interval | None, float]:
        """First over second in fixed rounds, and the median seconds of a launch of the first."""
        import numpy as np

        crew = Crew(self._runner.checks.workers, cases, seed=rounds)
        done = measure(crew, [(1, 0)], Goal(10.0, 0.01, 0.01, rounds), lambda text: None)
        crew.close()
        times: Any = done.look.wall[done.accepted]
        return stats.interval(done.logs(1, 0), 0.05), float(np.median(times[:, 0]))

    def _memory(self) -> Iterator[Figure]:
        """Identical pairs that main memory bounds: printed, not promised."""
        name, problem, variant = selftest.MEMORY
        verdicts = []
        for number in range(4):
            contest = replace(selftest.pair("identical", number, problem, variant), margin=0.04)
            done, _ = self._runner.take(contest, 1.0, selftest.BUDGET)
            self._file.append(done)
            verdicts.append(done.comparisons[0].verdict)
        yield Figure(f"identical pairs of {name}, margin 4 %", ", ".join(verdicts), "", True)


def _say(figures: list[Figure], environment: record.Environment, json_file: str | None) -> None:
    out = sys.stderr if json_file == "-" else sys.stdout
    for one in figures:
        print(one.say(), file=out)
    kept = figure.document(environment.started, figures)
    state.write(f"selftest/{environment.state['machine']}.json", json.dumps(kept))
    figure.write(kept, json_file)


@contextmanager
def spinners() -> Iterator[None]:
    """A busy process pinned to every core this one may use."""
    code = (
        "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\n"
        "parent = os.getppid()\nwhile os.getppid() == parent: pass"  # none outlives a killed self-test
    )
    busy = [subprocess.Popen([sys.executable, "-c", code, str(core)]) for core in sorted(os.sched_getaffinity(0))]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
