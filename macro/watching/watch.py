"""Two frameworks watched step by step, in turns: plain, with spans, with samples, with both, replayed, plain again."""

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
from macro.timing.entry import HANGS, WARM, Entry, Plan, begin
from macro.timing.turns import over_budget
from macro.watching import library_log, perf, rounds
from macro.watching.library_log import Logged
from macro.watching.recording import Round, Watched
from macro.watching.rounds import GROWN, SELDOM, Block, Observer
from reports import units

START = 10.0  # seconds of a process, for a forecast
REPLAYS = 2  # of a recorded step, in a round that replays
GROWING = 3  # plain steps until a heap that keeps its memory has it
SETTLED = 4  # … and of those that follow, whose page faults differ from step to step
ALIKE, FEW, LONGEST = 3, 512, 12  # so many that differ by no more than GROWN and so many page faults; steps at most
SPAN = frozenset(("start", "end", "rows", "column"))  # what each span tells, see macro/agent/core/recorder.py


@dataclass
class Side:
    """One side of an explanation: each process that was watched, and what its libraries logged."""

    entry: Entry
    processes: list[Watched] = field(default_factory=list)
    logged: Logged = field(default_factory=Logged)
    proving: float = 0.0  # seconds of the proof of equal work


def take(
    plan: Plan, sides: Sequence[Side], folder: Path, say: Callable[[str], None], keep: Callable[[Sequence[Round]], None]
) -> None:
    """Watch a process of each side a generation; `keep` gets the rounds that were read. Raises SuiteError."""
    processes = len(sides) * plan.generations
    say(
        f"about {plan.seconds + START * processes:.0f} s: {plan.seconds:.0f} s of watching, {processes} processes to "
        "start; a minute more where equal work is not proven yet"
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
    """Yield rounds as their samples are read, until this process's share of the budget is spent."""
    ends: list[float] = []  # of each round
    for turn in rounds.in_turns(list(looks.values()), plan.seconds / plan.generations, order):
        ends.append(turn.seconds)
        say(f"process {process + 1} of {plan.first + plan.generations} each: {units.counted(turn.number, 'round')}")
        for text in warn(turn.seconds) if turn.number == 1 else ():
            say(text)
        if turn.read:
            yield _read(process, looks, ends)
    seen = {side: look.end() for side, look in looks.items()}
    last = _read(process, looks, ends)
    yield [*last, *(Round(side, process, len(ends) - 1, ends[-1], True, watched) for side, watched in seen.items())]


def _read(process: int, looks: Mapping[int, NetworkObserver], ends: Sequence[float]) -> list[Round]:
    """Return the rounds that were not read yet, with perf's samples."""
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
    """Put the framework's name before the error of what fails inside."""
    try:
        yield
    except SuiteError as error:
        raise type(error)(f"{entry.framework.name}: {error}") from None


def start(plan: Plan, side: Side, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> NetworkObserver:
    """Start a warm process with perf beside it, whose equal work is proven. Raises SuiteError."""
    return _looked(plan, side, begun(plan, side, folder, stack, say), folder, stack, say)


def begun(plan: Plan, side: Side, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> Process:
    """Start a side's process; all sides start before minutes go into one. Raises SuiteError."""
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
    """Prove equal work, attach perf and trace a first step. Raises SuiteError."""
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
    """A framework's process and perf beside it."""

    def __init__(self, plan: Plan, entry: Entry, process: Process) -> None:
        """Run the first steps. perf starts later, so that code generated by them is mapped by then."""
        super().__init__(entry.setting.threads == 1)
        self.plan, self.entry, self.process = plan, entry, process
        self.fewest = inf
        self.costs = True  # whether some rounds look at what each instrument costs, and replay
        warm = self._plain(WARM)
        self.patience = max(HANGS, 50 * warm)
        self.count = self.traced = max(1, round(rounds.BLOCK / max(warm, 1e-9)))

    def start(self) -> None:
        """Trace one step whose times are discarded: profilers set themselves up at their first use."""
        self.block(1, spans=True, samples=True)
        if not self.sampler and not self.seen.traces:
            raise Unavailable(f"it tells no spans, and there are no samples: {perf.missing()}")

    def round(self, number: int, order: random.Random) -> None:
        """Run plain and traced blocks, in random order; seldom each instrument alone, and the replay."""
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
        self._plain(1, keep=False)  # what a replay held is given back
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
        """Return the unread rounds. Raises LaunchError, also where perf took no samples in them."""
        unread = super().read()
        if self.sampler and unread and not any(watched.samples for watched in unread):
            raise LaunchError(f"perf took no samples: {self.sampler.last_message()}")
        return unread

    def settled(self) -> Watched:
        """Return page faults and the system's time of plain steps, once the heap has what it keeps."""
        self.seen = Watched()
        with _blamed(self.entry):
            for number in range(GROWING + SETTLED):
                self._plain(1, keep=number >= GROWING)
        return self.seen

    def faulted_alike(self) -> list[float]:
        """Return page faults of the last ALIKE plain steps, which differ little once the heap has what it keeps."""
        self.seen = Watched()
        with _blamed(self.entry):
            for _ in range(LONGEST):
                self._plain(1)
                last = self.seen.faults[-ALIKE:]
                if len(last) == ALIKE and max(last) <= (GROWN * min(last) + FEW):
                    break
        return last

    def functions(self) -> Watched:
        """Return samples of a block of steps that is not timed."""
        self.seen = Watched()
        with _blamed(self.entry):
            self.watched_level(spans=False)
        if self.sampler:
            self.seen.sampled(self.sampler.read())
        return self.seen

    def end(self) -> Watched:
        """Run a last plain block."""
        self.seen = Watched(traces=self.seen.traces)
        with _blamed(self.entry):
            self._plain(1, keep=False)
            self.level("P0'", self._plain(self.count))
        return self.seen


def _spans(traced: Any) -> list[dict[str, Any]]:
    """Return the spans that an adapter traced. Raises LaunchError where that is no list of spans."""
    spans = traced if isinstance(traced, list) else [traced]
    for span in spans:
        if not (isinstance(span, dict) and span.keys() >= SPAN and isinstance(span["rows"], list)):
            raise LaunchError(f"its trace gives what is no span: {reprlib.repr(span)}")
    return spans
