"""Two frameworks watched step by step, in turns: plain, with spans, with samples, with both, replayed, plain again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernels.errors import SuiteError
from macro import _job, _perf
from macro._driver import Process
from macro._perf import Sample, Sampler, Switch
from macro._steps import HANGS, WARM, Entry, Plan

BLOCK = 0.4  # seconds of steps at one level, at least
FEWEST = 6  # rounds of a process
SELDOM = 3  # only each third round looks at what a level costs, and replays
REPLAYS = 2  # of a recorded step, in a round that replays


@dataclass
class Watched:
    """One process. `levels`: seconds of a step by level, P0 plain, P1 spans, P2 samples, P3 both; `replays`:
    seconds by repetition and call, and `beside` them the plain step of the same round."""

    levels: dict[str, list[float]] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)  # of plain steps
    faults: list[float] = field(default_factory=list)
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
    """One of the two, and every process of it that was watched."""

    entry: Entry
    processes: list[Watched] = field(default_factory=list)


def take(plan: Plan, sides: Sequence[Side], folder: Path, say: Callable[[str], None]) -> None:
    """Fill the sides, a process of each a generation. Raises SuiteError: a gap needs both."""
    files = _job.write_arrays(plan.network, plan.batch, folder)
    for generation in range(plan.generations):
        with ExitStack() as stack:
            pairs = [(side, _start(plan, side, files, folder, stack, say)) for side in sides]
            began, number = time.monotonic(), 0
            order = random.Random(plan.seed * 1000 + generation)
            while number < FEWEST or time.monotonic() - began < plan.seconds / plan.generations:
                for _, look in order.sample(pairs, len(pairs)):
                    look.round(number)
                number += 1
                say(f"process {generation + 1} of {plan.generations} each: {number} rounds")
            for side, look in pairs:
                side.processes.append(look.end())


def _start(
    plan: Plan, side: Side, files: dict[str, str], folder: Path, stack: ExitStack, say: Callable[[str], None]
) -> Look:
    entry = side.entry
    setting = entry.setting
    named = {**setting.knobs, "variables": {**setting.knobs.get("variables", {}), **_perf.NAMED}}
    setting = replace(setting, knobs=named)
    job = _job.write(entry.framework, plan.network, plan.batch, setting, files, folder)
    log = folder / f"{job.stem}.log"
    process = stack.enter_context(Process(entry.framework, job, setting, log))
    say(f"starting {entry.framework.name}, heap {setting.heap}")
    entry.identity, entry.built = process.expect("hello"), process.expect("built")
    sampler = None
    if not _perf.missing():
        sampler = Sampler(process.pid, folder)
        stack.callback(sampler.close)
    return Look(plan, entry, process, sampler)


class Look:
    """A process and perf beside it."""

    def __init__(self, plan: Plan, entry: Entry, process: Process, sampler: Sampler | None) -> None:
        self.plan, self.process, self.sampler = plan, process, sampler
        self.one_thread, self.found = entry.setting.threads == 1, Watched()
        warm = self._plain(WARM)
        self.patience = max(HANGS, 50 * warm)
        self.count = max(1, round(BLOCK / max(warm, 1e-9)))
        self._traced(1, spans=True, samples=True)  # what starts once, starts now
        self.found = Watched(traces=self.found.traces)

    def round(self, number: int) -> None:
        """Plain and traced; seldom each instrument alone, and the replay."""
        found, level = self.found, self._level
        beside = level("P0", self._plain(self.count))
        if number % SELDOM == 0:
            level("P1", self._traced(self.count, spans=True, samples=False))
            if self.sampler:
                level("P2", self._traced(self.count, spans=False, samples=True))
            self._replay(beside)
        level("P3", self._traced(self.count, spans=True, samples=True, keep=found))
        found.rounds += [number] * self.count

    def _level(self, name: str, seconds: float) -> float:
        self.found.levels.setdefault(name, []).append(seconds)
        return seconds

    def _plain(self, count: int) -> float:
        patience = getattr(self, "patience", HANGS * 5)
        told = self.process.ask(patience, "steps", do="steps", phase=self.plan.phase, count=count)
        found = self.found
        found.wall.append(sum(told["wall_ns"]) * 1e-9 / count)
        found.faults.append(sum(told["faults"]) / count)
        found.system.append(sum(told["system_ns"]) * 1e-9 / count)
        # One thread: others' work beside it does not count, what it waits for itself does.
        taken = told["cpu_ns"] + told["blocked_ns"] if self.one_thread else told["wall_ns"]
        return float(sum(taken)) * 1e-9 / count

    def _traced(self, count: int, spans: bool, samples: bool, keep: Watched | None = None) -> float:
        fifos = self.sampler.fifos if self.sampler and samples else None
        told = self.process.ask(
            self.patience * 2, "traced", do="trace", phase=self.plan.phase, count=count, fifos=fifos, spans=spans
        )  # fmt: skip
        self.found.traces = told["traces"]
        if keep is not None:
            keep.steps += [
                (start, end, cpu * 1e-9, blocked * 1e-9) for start, end, cpu, blocked in told["steps"]
            ]
            keep.spans += told["spans"]
        one = self.one_thread
        taken: list[int] = [cpu + idle if one else end - start for start, end, cpu, idle in told["steps"]]
        return sum(taken) * 1e-9 / count

    def _replay(self, beside: float) -> None:
        told = self.process.ask(
            self.patience * 2, "replayed", do="replay", phase=self.plan.phase, count=REPLAYS
        )
        if told["calls"]:
            self.found.calls = [(rows, column) for rows, column in told["calls"]]
            self.found.replays += [(beside, row) for row in told["seconds"]]

    def end(self) -> Watched:
        """With a last plain block; perf's samples read."""
        self._level("P0'", self._plain(self.count))
        if self.sampler:
            first, last = (self.found.steps[0][0], self.found.steps[-1][1]) if self.found.steps else (0, 0)
            samples, self.found.switches = self.sampler.stop()
            self.found.samples = [s for s in samples if first <= s.time <= last]
        if self.sampler and not self.found.samples:
            raise SuiteError("perf took no samples: run with --no-samples")
        return self.found
