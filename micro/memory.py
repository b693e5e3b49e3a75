"""Costs of memory besides its use: page faults, idle pages, heaps, bandwidth, latency, cold caches.

Also the gain by vectors where memory costs nothing."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace

from kernels.errors import SuiteError
from kernels.ops.chase.problem import Chase
from kernels.ops.exchange.problem import Exchange
from kernels.ops.pages import accounting
from kernels.ops.pages.problem import SMALL_PAGE, Pages
from kernels.ops.saxpy.problem import Saxpy
from micro import stream
from micro.answers import memory as answers
from micro.command.line import main
from micro.contests import memory as contests
from micro.findings.ratios import ratios
from micro.planning.benchmark import Benchmark, Question, Useful
from reports.record import Run


@functools.cache
def _accounted() -> tuple[accounting.Account | None, accounting.Profile | str]:
    """Return page-fault costs by getrusage and perf, measured now, once per command."""
    try:
        return accounting.account(contests.SIZE), accounting.profiled(contests.SIZE)
    except SuiteError as error:
        return None, str(error)


def faults_answer(run: Run) -> list[str]:
    """Return the sentences on faults, on a CPU with cross-checks by getrusage and perf."""
    touches = (result for x in run.contests if x.contest.startswith("fault/") for result in x.results)
    real = any(result.device == "cpu" and result.seconds for result in touches)
    return answers.faults_answer(run, *(_accounted() if real else ()))


def answer(run: Run) -> list[str]:
    """Return sentences on faults and latency, all ratios, and reasons for contests without them."""
    reasons = answers.unprepared(run)
    ready = replace(run, contests=tuple(x for x in run.contests if x.contest not in reasons))
    without = [f"{name}: no figure: {reason}." for name, reason in reasons.items()]
    return [*faults_answer(run), *answers.latency_answer(run), *ratios(ready), *without]


QUESTIONS = {
    "overview": Question(
        "a selection of the questions below, except --idle, --bandwidth, --simd, --exchange (about 30 s; default)",
        contests.overview,
        answer,
    ),
    "faults": Question("what does a page fault cost, by wall clock, system time and perf?", contests.faults, answer),
    "idle": Question(
        "is memory slower 3 s after it was unmapped? (a minute and a half; longer with --page 4096, --pause 0,1,3)",
        contests.idle,
        answer,
        seconds=90.0,
    ),
    "allocator": Question("what do heap policies and huge pages save?", contests.allocator, answer),
    "bandwidth": Question("how fast are read, copy and triad, 4 KiB to 1 GiB?", contests.bandwidth, answer),
    "latency": Question(
        "how long does a load take, 4 KiB to 1 GiB? How much last-level cache is usable? (about 45 s)",
        contests.loads,
        answer,
        seconds=45.0,
    ),
    "cold_operands": Question("how much slower are operands out of cache?", contests.cold, answer),
    "exchange": Question(
        "what do exchanges between GPU threads cost: bank conflicts, shuffles, atomic additions?",
        contests.exchange,
        answer,
    ),
    "simd": Question("how much do wider vectors speed up data in L1 cache: SSE, AVX2, AVX-512?", contests.simd, answer),
}
# Further operations, whose axes select them in the lines that repeat a case.
OTHERS = (
    Benchmark(Chase, "A chain of dependent loads.", sweep={"working_set": (1 << 20,)}),
    Benchmark(
        Exchange,
        "Exchange of words between GPU threads.",
        sweep={"how": ("load",), "spread": (1,), "steps": (contests.HANDED["load"],), "processors": (1,)},
    ),
    Benchmark(
        Saxpy,
        "y = y/2 + x, with operands in or out of cache.",
        sweep={"vector": (1 << 18,), "state": ("warm", "flushed", "swept")},
    ),
    stream.BENCHMARK,
)
BENCHMARK = Benchmark(
    Pages,
    "Costs of memory: page faults, idle pages, heaps, bandwidth, latency. Default question: --overview.",
    sweep={"what": ("clear",), "memory": ("touched", "fresh"), "size": (contests.SIZE,), "page": (SMALL_PAGE,)},
    questions=QUESTIONS,
    useful=(Useful("--overview"), Useful("--latency", 260, 10.0), Useful("--exchange", 360, 8.0)),
    small="--size 262144",
    default="overview",
    sweeping=("what", "memory", "pause", "behind"),
    limiting=("size",),
    others=OTHERS,
)
if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "memory"))
