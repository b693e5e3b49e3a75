"""The self-test as a command: pairs with known ratios, repeated runs of rivals, bias of the loop."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kernels import state
from kernels.devices import open_device
from kernels.errors import stop_code
from kernels.ops.fma import Fma
from micro.command import figure, known_pairs, spread
from micro.command.figure import Promise
from micro.command.outputs import for_people, open_outputs
from micro.command.session import Session, session
from micro.contests import rivals, selftest
from micro.contests.selftest import Known
from micro.measuring.rounds import Goal, measure
from micro.measuring.runner import Runner
from micro.measuring.workers import ContestWorkers
from micro.planning.contest import Case, Contest
from micro.planning.options import Outputs
from reports import next_run, record, stats, store, units

STEADY = 2048  # rounds to measure a bias, enough for an interval narrower than the promise
SPINNER = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
parent = os.getppid()
while os.getppid() == parent: pass  # none outlives a killed self-test
"""


@dataclass(frozen=True)
class Options:
    """Command-line options of `micro.selftest`; `json`: the file into which figures are written."""

    full: bool = False
    output: Path | None = None
    json: str | None = None
    quiet: bool = False
    resume: bool = False


def run(options: Options) -> int:
    """Run the self-test; return its exit code. Raises UsageError."""
    phases = rivals.RUNS[options.full] + (4 if options.full else 3)
    documents = {"json": options.json} if options.json else {}
    outputs = Outputs(output=options.output, quiet=options.quiet, resume=options.resume, documents=documents)
    with ExitStack() as stack:
        opened = open_outputs(outputs, stack)
        at = stack.enter_context(session("selftest", [open_device("cpu")], phases, outputs))
        test = Selftest(at, options.full)
        try:
            figures = test.figures()
        except (KeyboardInterrupt, SystemExit) as stop:
            print(f"micro.selftest: interrupted; {_kept(at.file)}", file=sys.stderr)
            return stop_code(stop)
        spreads = {"between": test.between, "paths": test.paths}
        at.file.append(record.Note("selftest", {"figures": figure.data(figures), **spreads}))
        kept = _remembered(figures, spreads, at.environment)
        figure.table(figures, for_people(outputs))
        figure.write(kept | spreads, opened.get("json"))
    return figure.exit_code(figures)


def _kept(file: store.RunFile) -> str:
    """Format where an interrupted self-test has kept its contests, if anywhere."""
    contests = units.counted(len(file.run.contests), "contest")
    return f"in {file.path}: {contests}, continue with --resume" if file.path else "not saved (no -o FILE)"


class Selftest:
    """Measurements of the self-test in an open session; contests in its run file are reused."""

    def __init__(self, at: Session, full: bool) -> None:
        self._at, self._full = at, full
        self._known = {contest.contest: contest for contest in at.file.run.contests}
        self._rivals = rivals.rivals(open_device("cpu").limits().cores, full)
        self._passes, self._seconds = rivals.RUNS[full], selftest.SECONDS[full]

    def figures(self) -> list[Promise]:
        """Measure everything, in passes spread over the self-test's duration; return the figures."""
        began = time.monotonic()
        noisy, needs = self._pilot()
        counts = selftest.FULL if self._full else selftest.QUICK
        vague = known_pairs.vague(needs, self._seconds)
        same = vague[selftest.IDENTICAL]  # noisy kernels are measured too, since none may be called different
        every = selftest.schedule(counts, self._full)
        quiet = [known for known in every if known.kind == selftest.IDENTICAL or known.kernel not in vague[known.kind]]
        pairs: list[known_pairs.Pair] = []
        for number in range(self._passes):
            self._at.progress.begin(f"run {number + 1} of {self._passes} of every pair of rivals")
            runner = self._at.runner.fresh(number)
            spread.take(self._rivals, number, self._at.runner.seed, self._taker(runner))
            pairs += [self._pair(known, runner) for known in quiet[number :: self._passes]]
        lines = [known_pairs.left_out(vague, needs, self._seconds)]
        lines += known_pairs.figures(pairs, False, self._full, noisy, same)
        lines += spread.promises(self._runs, self._pairs, self._spreads, noisy)
        rest = self._at.runner.fresh(self._passes)
        lines += [*self._biases(noisy), *self._memory(rest)]
        if self._full:
            lines += self._spinning(rest)
        lines.append(self._steering())
        return [*lines, Promise("whole self-test", f"{time.monotonic() - began:.0f} s", "", True)]

    @cached_property
    def _runs(self) -> list[spread.Runs]:
        return spread.runs(self._rivals, self._passes, self._known)

    @cached_property
    def _spreads(self) -> dict[str, Any]:
        return spread.between(self._runs)

    @cached_property
    def _pairs(self) -> list[spread.PairFigures]:
        return spread.figures(self._runs, self._spreads)

    @property
    def between(self) -> dict[str, Any]:
        """Spread between runs by timing path, as records for later reports."""
        return {path: asdict(value) for path, value in self._spreads.items()}

    @property
    def paths(self) -> list[dict[str, Any]]:
        """Rows of the table of timing paths, as records."""
        return spread.rows(self._pairs, self._spreads)

    def _taker(self, runner: Runner) -> spread.Take:
        def take(contest: Contest, seconds: float) -> record.Contest:
            if contest.name not in self._known:
                self._at.progress.say(contest.name)
                self._keep(runner.run(contest, seconds, selftest.BUDGET))
            return self._known[contest.name]

        return take

    def _keep(self, done: record.Contest) -> None:
        self._at.file.append(done)
        self._known[done.contest] = done

    def _pair(self, known: Known, runner: Runner) -> known_pairs.Pair:
        return known_pairs.finished(known, self._taker(runner)(known.contest, self._seconds[known.kind]))

    def _pilot(self) -> tuple[str | None, known_pairs.Needs]:
        """Measure the pilot pairs before anything that is judged.

        Returns the reason why the machine is not quiet, or None, and the `needs` of known_pairs by kind and kernel."""
        self._at.progress.begin("pilot: is the machine quiet?")
        pilot = [*selftest.schedule(selftest.PILOT, self._full, "/pilot")]
        take = self._taker(self._at.runner)
        done = [take(known.contest, self._seconds[known.kind]) for known in pilot]
        noisy = known_pairs.noisy(done)
        if noisy:
            print(f"micro.selftest: {noisy}: figures that need a quiet machine will not be judged", file=sys.stderr)
        return noisy, known_pairs.needs(pilot, done)

    def _spinning(self, runner: Runner) -> Iterator[Promise]:
        """Yield the figures of pairs with known ratios, measured beside a busy process on every core."""
        self._at.progress.begin("pairs, a spinner on every core")
        pairs = [*selftest.schedule(selftest.SPINNING, True, "/spinner")]
        with spinners():
            finished = [self._pair(known, runner) for known in pairs]
        yield from known_pairs.figures(finished, True, self._full, None)

    def _biases(self, noisy: str | None) -> Iterator[Promise]:
        """Yield figures of the time that the measuring loop adds to a launch of known length."""
        from kernels.devices.cpu import instruction_sets

        self._at.progress.begin("bias of the loop")
        isa = instruction_sets()[-1]
        probe = Case(Fma(isa, 10_000, 1), "c")
        beside = replace(probe, role="ceiling")
        step = self._ratio((probe, beside), 64)[1] / 10_000
        for microseconds, limit in selftest.BIAS.items():
            short, block, launches = selftest.bias(microseconds, isa, step)
            shown, _ = self._ratio((short, block), STEADY)
            assert shown is not None
            scale = block.problem.steps / short.problem.steps  # type: ignore[attr-defined]
            low, mid, high = (end * scale - 1 for end in (shown.low, shown.center, shown.high))
            yield figure.within(
                f"bias of the loop at {microseconds} µs ({launches} launches a visit)", (low, mid, high), limit, noisy
            )
        empty = Case(Fma(isa, 1, 1), "c")
        yield Promise("a launch of one multiply-add", f"{1e9 * self._ratio((empty, beside), 64)[1]:.1f} ns", "", True)
        resolution = time.clock_getres(time.CLOCK_MONOTONIC)
        yield Promise("resolution of the clock", f"{1e9 * resolution:g} ns", "", True)

    def _ratio(self, cases: tuple[Case, Case], rounds: int) -> tuple[stats.Interval | None, float]:
        """Return the first case over the second in so many rounds, and median seconds of the first's launch."""
        import numpy as np

        crew = ContestWorkers(self._at.runner.checks.workers, cases, seed=rounds)
        done = measure(crew, [(1, 0)], Goal(10.0, 0.01, 0.01, rounds), lambda text: None)
        crew.close()
        times: Any = done.look.wall[done.timed]
        return stats.interval(done.logs(1, 0), 0.05), float(np.median(times[:, 0]))

    def _memory(self, runner: Runner) -> Iterator[Promise]:
        """Yield a figure, without promise, of the verdicts on identical pairs bound by main memory."""
        name, problem, variant = selftest.MEMORY
        take, verdicts = self._taker(runner), []
        for number in range(4):
            contest = replace(selftest.pair(selftest.IDENTICAL, number, problem, variant), margin=0.04)
            verdicts.append(take(contest, 1.0).comparisons[0].verdict)
        yield Promise(f"identical pairs of {name}, margin 4 %", ", ".join(verdicts), "", True)

    def _steering(self) -> Promise:
        """Return a figure of the set environment variables that choose a library's kernels or threads."""
        variables = self._at.environment.facts.get("variables") or {}
        text = ", ".join(f"{name}={value}" for name, value in variables.items()) or "none"
        return Promise("variables that steer libraries", text, "", True)


def _remembered(figures: Sequence[Promise], spreads: dict[str, Any], environment: record.Environment) -> dict[str, Any]:
    """Return the figures as a document, and store it in the state folder for later reports."""
    kept = figure.document(environment.started, figures)
    earlier = {path: asdict(value) for path, value in next_run.spreads(environment).items()}
    later = kept | {"between": better(spreads["between"], earlier)}
    state.write(f"selftest/{environment.state['machine']}.json", json.dumps(later))
    return kept


def better(between: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Return each path's spread from the self-test that has more degrees of freedom for it.

    So a quick self-test does not replace what a full one measured."""
    kept = {path: value for path, value in earlier.items() if value["degrees"] > between.get(path, value)["degrees"]}
    return earlier | between | kept


@contextmanager
def spinners() -> Iterator[None]:
    """Run a busy process on every core that this process may use, until the context ends."""
    import os

    cores = sorted(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", SPINNER, str(core)]) for core in cores]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
