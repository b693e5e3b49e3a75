"""Two frameworks watched step by step, in turns: plain, with spans, with samples, with both, replayed, plain again."""

from __future__ import annotations

import random
import reprlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernels.errors import LaunchError, SuiteError, Unavailable
from kernels.ops.gemm.problem import Gemm
from macro.equality import gate
from macro.processes import job
from macro.processes.process import Process
from macro.timing.turns import HANGS, WARM, Entry, Plan, begin
from macro.watching import library_log, perf
from macro.watching.perf import Sample, Sampler, Switch

BLOCK = 0.4  # seconds of steps at one level, at least
FEWEST = 6  # rounds of a process
SELDOM = 3  # only each third round looks at what a level costs, and replays
START = 10.0  # seconds of a process, for a forecast
REPLAYS = 2  # of a recorded step, in a round that replays
SPAN = frozenset(("start", "end", "rows", "column"))  # what each span tells, see macro/worker/recorder.py


@dataclass
class Watched:
    """One process. `levels`: seconds of a step by level, P0 plain, P1 spans, P2 samples, P3 both; `replays`:
    seconds by repetition and call, and `beside` them the plain step of the same round."""

    levels: dict[str, list[float]] = field(default_factory=dict)
    faults: list[float] = field(default_factory=list)  # of plain steps, as system
    system: list[float] = field(default_factory=list)
    # Of P3: start, end; seconds of processor time and of waiting of its own accord.
    steps: list[tuple[int, int, float, float]] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)  # of each of these
    spans: list[dict[str, Any]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    calls: list[tuple[list[str], str]] = field(default_factory=list)
    replays: list[tuple[float, list[float]]] = field(default_factory=list)
    traces: bool = True  # whether its adapter tells spans


@dataclass
class Side:
    """One side of an explanation: each process that was watched, and the products that its libraries logged."""

    entry: Entry
    processes: list[Watched] = field(default_factory=list)
    products: list[Gemm] = field(default_factory=list)


def take(plan: Plan, sides: Sequence[Side], folder: Path, say: Callable[[str], None]) -> None:
    """Fill the sides, a process of each a generation. Raises SuiteError: a gap needs both."""
    processes = len(sides) * plan.generations
    say(
        f"about {plan.seconds + START * processes:.0f} s: {plan.seconds:.0f} s of watching, {processes} processes to "
        "start; a minute more where equal work is not proven yet"
    )
    files = job.write_arrays(plan.network, plan.batch, folder)
    for generation in range(plan.generations):
        order = random.Random(plan.seed * 1000 + generation)
        with ExitStack() as stack:
            starts = order.sample(sides, len(sides))
            pairs = [(side, _start(plan, side, files, folder, stack, say)) for side in starts]
            began, number = time.monotonic(), 0
            while number < FEWEST or time.monotonic() - began < plan.seconds / plan.generations:
                for side, look in order.sample(pairs, len(pairs)):
                    with _blamed(side.entry):
                        look.round(number, order)
                number += 1
                say(f"process {generation + 1} of {plan.generations} each: {number} rounds")
            for side, look in pairs:
                with _blamed(side.entry):
                    side.processes.append(look.end())
    for side in sides:
        side.products = library_log.logged(plan, side.entry, files, folder, say)


@contextmanager
def _blamed(entry: Entry) -> Iterator[None]:
    """Put the framework's name before the error of what fails inside."""
    try:
        yield
    except SuiteError as error:
        raise type(error)(f"{entry.framework.name}: {error}") from None


def _start(
    plan: Plan, side: Side, files: dict[str, str], folder: Path, stack: ExitStack, say: Callable[[str], None]
) -> Look:
    entry = side.entry
    setting = entry.setting
    named = {**setting.knobs, "variables": {**setting.knobs.get("variables", {}), **perf.NAMED}}
    setting = replace(setting, knobs=named)
    say(f"starting {entry.framework.name}, heap {setting.heap}")
    with _blamed(entry):
        process = begin(plan, entry, setting, files, folder, stack)
    gate.refuse(plan, entry, folder, say)
    with _blamed(entry):
        look = Look(plan, entry, process)
        if not perf.missing():
            look.sampler = Sampler(process.pid, folder)
            stack.callback(look.sampler.close)
        look.start()
    return look


class Look:
    """A process and perf beside it."""

    def __init__(self, plan: Plan, entry: Entry, process: Process) -> None:
        """Warm from here on. perf starts later, so that code generated by the first steps is mapped by then."""
        self.plan, self.process = plan, process
        self.sampler: Sampler | None = None
        self.one_thread, self.found = entry.setting.threads == 1, Watched()
        self.patience = 5 * HANGS
        warm = self._plain(WARM)
        self.patience = max(HANGS, 50 * warm)
        self.count = max(1, round(BLOCK / max(warm, 1e-9)))

    def start(self) -> None:
        """Trace one step whose times are discarded: profilers set themselves up at their first use."""
        self._traced(1, spans=True, samples=True)
        if not self.sampler and not self.found.traces:
            raise Unavailable(f"it tells no spans, and there are no samples: {perf.missing()}")
        self.found = Watched(traces=self.found.traces)

    def round(self, number: int, order: random.Random) -> None:
        """Plain and traced, in random order; seldom each instrument alone, and the replay beside a plain block. The
        first step after the other side's turn is discarded: the hypervisor may have reclaimed freed pages."""
        self._plain(1, keep=False)
        looks: list[Callable[[], object]] = [self._beside if number % SELDOM == 0 else self._p0, self._p3]
        for look in order.sample(looks, len(looks)):
            look()
        self.found.rounds += [number] * self.count

    def _p0(self) -> float:
        return self._level("P0", self._plain(self.count))

    def _p3(self) -> None:
        self._level("P3", self._traced(self.count, spans=True, samples=True, keep=self.found))

    def _beside(self) -> None:
        plain = self._p0()
        self._replay(plain)
        self._plain(1, keep=False)  # what a replay held is given back
        self._level("P1", self._traced(self.count, spans=True, samples=False))
        if self.sampler:
            self._level("P2", self._traced(self.count, spans=False, samples=True))

    def _level(self, name: str, seconds: float) -> float:
        self.found.levels.setdefault(name, []).append(seconds)
        return seconds

    def _plain(self, count: int, keep: bool = True) -> float:
        reply = self.process.ask(self.patience, "steps", do="steps", phase=self.plan.phase, count=count)
        if keep:
            self.found.faults.append(sum(reply["faults"]) / count)
            self.found.system.append(sum(reply["system_ns"]) * 1e-9 / count)
        # One thread: others' work beside it does not count, what it waits for itself does.
        taken = reply["cpu_ns"] + reply["blocked_ns"] if self.one_thread else reply["wall_ns"]
        return float(sum(taken)) * 1e-9 / count

    def _traced(self, count: int, spans: bool, samples: bool, keep: Watched | None = None) -> float:
        fifos = self.sampler.fifos if self.sampler and samples else None
        reply = self.process.ask(
            self.patience * 2, "traced", do="trace", phase=self.plan.phase, count=count, fifos=fifos, spans=spans
        )
        self.found.traces = reply["traces"]
        if keep is not None:
            keep.steps += [(start, end, cpu * 1e-9, blocked * 1e-9) for start, end, cpu, blocked in reply["steps"]]
            keep.spans += _spans(reply["spans"])
        one = self.one_thread
        taken: list[int] = [cpu + idle if one else end - start for start, end, cpu, idle in reply["steps"]]
        return sum(taken) * 1e-9 / count

    def _replay(self, beside: float) -> None:
        reply = self.process.ask(self.patience * 2, "replayed", do="replay", phase=self.plan.phase, count=REPLAYS)
        if reply["calls"]:
            self.found.calls = [(rows, column) for rows, column in reply["calls"]]
            self.found.replays += [(beside, row) for row in reply["seconds"]]

    def end(self) -> Watched:
        """What was seen, after a last plain block and with perf's samples."""
        self._plain(1, keep=False)
        self._level("P0'", self._plain(self.count))
        if self.sampler:
            first, last = (self.found.steps[0][0], self.found.steps[-1][1]) if self.found.steps else (0, 0)
            samples, self.found.switches = self.sampler.stop()
            self.found.samples = [s for s in samples if first <= s.time <= last]
        if self.sampler and not self.found.samples:
            raise LaunchError(f"perf took no samples: {self.sampler.said()}")
        return self.found


def _spans(traced: Any) -> list[dict[str, Any]]:
    """What an adapter traced. Raises LaunchError where that is no list of spans."""
    spans = traced if isinstance(traced, list) else [traced]
    for span in spans:
        if not (isinstance(span, dict) and span.keys() >= SPAN and isinstance(span["rows"], list)):
            raise LaunchError(f"its trace gives what is no span: {reprlib.repr(span)}")
    return spans
