"""Two frameworks watched in turns: blocks of steps plain, with spans, samples or both, replayed."""

from __future__ import annotations

import random
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from kernels.errors import LaunchError, SuiteError, Unavailable
from macro.equality import gate
from macro.processes.process import Process
from macro.timing.entry import HANGS, WARM, Entry, Plan, begin, is_reported
from macro.timing.turns import over_budget
from macro.watching import library_log, perf, rounds
from macro.watching.library_log import Logged
from macro.watching.recording import Round, Watched
from macro.watching.rounds import GROWN, SELDOM, Block, Observer
from reports import units

START = 10.0  # seconds of a process, for a forecast
REPLAYS = 2  # of the recorded step in each round that replays
GROWING = 3  # plain steps until a heap that keeps freed memory has enough
SETTLED = 4  # plain steps that are counted after these: their page faults differ from step to step
ALIKE, FEW, LONGEST = 3, 512, 12  # steps with alike page faults (within GROWN times plus FEW); steps at most
SPAN = frozenset(("start", "end", "rows", "column"))  # keys of a span, see macro/agent/core/recorder.py


@dataclass
class Side:
    """One side of an explanation: a framework, its watched processes and its libraries' log."""

    entry: Entry
    processes: list[Watched] = field(default_factory=list)
    logged: Logged = field(default_factory=Logged)
    proving: float = 0.0  # seconds that the proof of equal work took


def take(
    plan: Plan, sides: Sequence[Side], folder: Path, say: Callable[[str], None], keep: Callable[[Sequence[Round]], None]
) -> None:
    """Watch a process of each side per generation; `keep` receives the rounds. Raises SuiteError."""
    processes = len(sides) * plan.generations
    say(
        f"about {plan.seconds + START * processes:.0f} s: {plan.seconds:.0f} s of watching, {processes} processes to "
        "start; a minute more if equal work is not yet proven"
    )
    for generation in range(plan.first, plan.first + plan.generations):
        order, began = random.Random(plan.seed * 1000 + generation), time.monotonic()
        with ExitStack() as stack:
            starts = order.sample(range(len(sides)), len(sides))
            started = {number: begun(plan, sides[number], folder, stack, say) for number in starts}
            looks = {number: _looked(plan, sides[number], started[number], folder, stack, say) for number in starts}
            warn = partial(over_budget, plan, generation, starting=time.monotonic() - began)
            for ended in _rounds(plan, generation, order, looks, say, warn):
                keep(ended)
    for side in sides:
        side.logged = library_log.logged(plan, side.entry, folder, say)


def _rounds(
    plan: Plan,
    process: int,
    order: random.Random,
    looks: Mapping[int, NetworkObserver],
    say: Callable[[str], None],
    warn: Callable[[float], Iterable[str]],
) -> Iterator[list[Round]]:
    """Yield the rounds since the last read of samples, until the processes' share of the budget is spent."""
    ends: list[float] = []  # of each round
    for turn in rounds.in_turns(list(looks.values()), plan.seconds / plan.generations, order):
        ends.append(turn.seconds)
        if is_reported(turn.number):
            place = f"process {process + 1} of {plan.first + plan.generations} of each"
            say(f"{place}: {units.counted(turn.number, 'round')}, {turn.seconds:.0f} s")
        for text in warn(turn.seconds) if turn.number == 1 else ():
            say(text)
        if turn.read:
            yield _read(process, looks, ends)
    seen = {side: look.end() for side, look in looks.items()}
    last = _read(process, looks, ends)
    yield [*last, *(Round(side, process, len(ends) - 1, ends[-1], True, watched) for side, watched in seen.items())]


def _read(process: int, looks: Mapping[int, NetworkObserver], ends: Sequence[float]) -> list[Round]:
    """Return the unread rounds of all sides, with perf's samples."""
    ended = []
    for side, look in looks.items():
        with _blamed(look.entry):
            for watched in look.read():
                number = watched.rounds[0]
                about = {"identity": look.entry.identity, "built": look.entry.built} if number == 0 else {}
                ended.append(Round(side, process, number, ends[number], False, watched, about))
    return ended


@contextmanager
def _blamed(entry: Entry) -> Iterator[None]:
    """Put the framework's name before the message of a SuiteError raised in this block."""
    try:
        yield
    except SuiteError as error:
        raise type(error)(f"{entry.framework.name}: {error}") from None


def start(plan: Plan, side: Side, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> NetworkObserver:
    """Start a side's process, prove its equal work, warm it up and attach perf. Raises SuiteError."""
    return _looked(plan, side, begun(plan, side, folder, stack, say), folder, stack, say)


def begun(plan: Plan, side: Side, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> Process:
    """Start a side's process, before any slow proof, so that failures show early. Raises SuiteError."""
    entry = side.entry
    setting = entry.setting
    named = {**setting.knobs, "variables": {**setting.knobs.get("variables", {}), **perf.NAMED}, "watched": True}
    setting = replace(setting, knobs=named)
    say(f"starting {entry.framework.name}, heap {setting.heap}")
    with _blamed(entry):
        return begin(plan, entry, setting, folder, stack)


def _looked(
    plan: Plan, side: Side, process: Process, folder: Path, stack: ExitStack, say: Callable[[str], None]
) -> NetworkObserver:
    """Prove equal work, attach perf and discard a first traced step. Raises SuiteError."""
    entry, began = side.entry, time.monotonic()
    gate.refuse(plan, entry, folder, say)
    side.proving = time.monotonic() - began
    with _blamed(entry):
        look = NetworkObserver(plan, entry, process)
        if not perf.missing():
            look.attach(process.pid, folder, stack)
        look.start()
    return look


class NetworkObserver(Observer):
    """Observer of a framework's process, with perf beside it where available."""

    def __init__(self, plan: Plan, entry: Entry, process: Process) -> None:
        """Run warm-up steps; perf is attached later, when the code generated in them is mapped."""
        super().__init__(entry.setting.threads == 1)
        self.plan, self.entry, self.process = plan, entry, process
        self.fewest = inf
        self.costs = True  # whether every third round measures each instrument's overhead, and replays
        warm = self._plain(WARM)
        self.patience = max(HANGS, 50 * warm)
        self.count = self.traced = max(1, round(rounds.BLOCK / max(warm, 1e-9)))

    def start(self) -> None:
        """Trace one step and discard its times: profilers initialize at first use. Raises Unavailable."""
        self.block(1, spans=True, samples=True)
        if not self.sampler and not self.seen.traces:
            raise Unavailable(f"the framework reports no spans, and samples require perf: {perf.missing()}")

    def round(self, number: int, order: random.Random) -> None:
        """Run plain and traced blocks, in random order; every third round also instruments alone and a replay."""
        self.seen = Watched(rounds=[number] * self.count)
        with _blamed(self.entry):
            self._plain(1, keep=False)  # after the other side's turn the hypervisor may have reclaimed freed pages
            beside = self.costs and number % SELDOM == 0
            looks: list[Callable[[], object]] = [self._beside if beside else self._p0, self.watched_level]
            for look in order.sample(looks, len(looks)):
                look()
        self.unread.append(self.seen)

    def _p0(self) -> float:
        return self.level("P0", self._plain(self.count))

    def _beside(self) -> None:
        plain = self._p0()
        self._replay(plain)
        self._plain(1, keep=False)  # gives back the memory of the replay
        self.traced_level("P1", spans=True)
        if self.sampler:
            self.traced_level("P2", samples=True)

    def _plain(self, count: int, keep: bool = True) -> float:
        block = self.block(count)
        return self.plain(block) if keep else block.seconds(self.one_thread)

    def block(self, count: int, spans: bool = False, samples: bool = False) -> Block:
        """Run a block of steps, plain or traced."""
        about: dict[str, Any] = {"phase": self.plan.phase, "count": count}
        if spans or samples:
            fifos = self.sampler.fifos if self.sampler and samples else None
            reply = self.process.ask(self.patience * 2, "traced", do="trace", fifos=fifos, spans=spans, **about)
            self.seen.traces, rows = reply["traces"], reply["steps"]
        else:
            reply = self.process.ask(self.patience, "steps", do="steps", **about)
            rows = [(0, *row) for row in zip(reply["wall_ns"], reply["cpu_ns"], reply["blocked_ns"], strict=True)]
            self.fewest = min(self.fewest, sum(reply["faults"]) / count)
        self.faults = sum(reply["faults"]) / count
        return Block(
            rows, reply["faults"], sum(reply["system_ns"]) * 1e-9 / count, reply, _spans(reply.get("spans", []))
        )

    def _replay(self, beside: float) -> None:
        reply = self.process.ask(self.patience * 2, "replayed", do="replay", phase=self.plan.phase, count=REPLAYS)
        if reply["calls"]:
            self.seen.calls = [(rows, column) for rows, column in reply["calls"]]
            self.seen.replays += [(beside, row) for row in reply["seconds"]]

    def read(self) -> list[Watched]:
        """Return the unread rounds. Raises LaunchError, also if perf took no samples in these rounds."""
        unread = super().read()
        if self.sampler and unread and not any(watched.samples for watched in unread):
            raise LaunchError(f"perf recorded no samples: {self.sampler.last_message()}")
        return unread

    def settled(self) -> Watched:
        """Return page faults and system time of SETTLED plain steps, after GROWING steps for the heap to grow."""
        self.seen = Watched()
        with _blamed(self.entry):
            for number in range(GROWING + SETTLED):
                self._plain(1, keep=number >= GROWING)
        return self.seen

    def faulted_alike(self) -> list[float]:
        """Run plain steps until ALIKE successive steps have similar page faults; return these faults."""
        self.seen = Watched()
        with _blamed(self.entry):
            for _ in range(LONGEST):
                self._plain(1)
                last = self.seen.faults[-ALIKE:]
                if len(last) == ALIKE and max(last) <= (GROWN * min(last) + FEW):
                    break
        return last

    def functions(self) -> Watched:
        """Return perf's samples of an extra block of steps without spans."""
        self.seen = Watched()
        with _blamed(self.entry):
            self.watched_level(spans=False)
        if self.sampler:
            self.seen.sampled(self.sampler.read())
        return self.seen

    def end(self) -> Watched:
        """Run a closing plain block, at level P0'; return its data."""
        self.seen = Watched(traces=self.seen.traces)
        with _blamed(self.entry):
            self._plain(1, keep=False)
            self.level("P0'", self._plain(self.count))
        return self.seen


def _spans(traced: Any) -> list[dict[str, Any]]:
    """Return the spans that an adapter traced. Raises LaunchError if the reply is not a list of spans."""
    spans = traced if isinstance(traced, list) else [traced]
    for span in spans:
        if not (isinstance(span, dict) and span.keys() >= SPAN and isinstance(span["rows"], list)):
            raise LaunchError(f"the framework's trace has an invalid span: {reprlib.repr(span)}")
    return spans
