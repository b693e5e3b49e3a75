"""Recording of watched steps, round by round: data alone, the same for every kind of program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from macro.timing.entry import FEWEST, Taken
from macro.watching.load import Load
from macro.watching.perf import PERIOD, Sample, Seen, Switch

SIDES = 2


class Event(NamedTuple):
    """An operation, a node of autograd or a call of a module, by the framework's own profiler."""

    name: str
    start: int  # monotonic nanoseconds
    end: int
    thread: int  # of the system
    sequence: int  # autograd's number, -1 where it has none
    lane: int  # the profiler's number of the thread
    forward: int  # of the thread whose forward operation a node belongs to; 0: none


class Called(NamedTuple):
    """An operation with what it was called with."""

    event: Event
    shapes: list[Any]  # of each input; a list of them for a list of tensors
    strides: list[Any]
    types: list[str]
    arguments: list[Any]  # values of those that are no tensors


@dataclass
class Blocks:
    """Blocks of a process's steps by level: P0 plain, P1 spans, P2 samples, P3 both."""

    levels: dict[str, list[float]] = field(default_factory=dict)  # seconds of a step, by level
    faults: list[float] = field(default_factory=list)  # of plain steps, as system
    system: list[float] = field(default_factory=list)
    # Of P3: start, end; seconds of processor time and of waiting of its own accord.
    steps: list[tuple[int, int, float, float]] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)  # of each of these
    calls: list[tuple[list[str], str | None]] = field(default_factory=list)
    # Seconds of each call, by repetition, and beside them the plain step of the same round.
    replays: list[tuple[float, list[float]]] = field(default_factory=list)
    traces: bool = True  # whether its adapter tells spans
    faulted: dict[str, list[float]] = field(default_factory=dict)  # page faults of a step, by level
    period: int = PERIOD  # nanoseconds that a sample stands for
    retaken: int = 0  # blocks of watched steps that were taken again: its memory grew in them
    watched_system: list[float] = field(default_factory=list)  # as system, of P3
    load: list[Load] = field(default_factory=list)  # of each block of plain steps


@dataclass
class Watched(Blocks):
    """One process, or what a round added to it."""

    spans: list[dict[str, Any]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    page_faults: list[Sample] = field(default_factory=list)  # each stands for perf.FAULTS of them
    events: list[Event] = field(default_factory=list)  # of a program whose spans are told only when it is explained

    def level(self, name: str, seconds: float, faults: float) -> None:
        """Add a block of steps at this level: seconds and page faults of a step."""
        self.levels.setdefault(name, []).append(seconds)
        self.faulted.setdefault(name, []).append(faults)

    def add(self, more: Watched) -> None:
        """Add a later round of the same process."""
        kept = vars(self)
        for name, values in vars(more).items():
            if isinstance(values, dict):  # by level
                for level, of_level in values.items():
                    kept[name].setdefault(level, []).extend(of_level)
            elif isinstance(values, list) and name != "calls":
                kept[name].extend(values)
        self.calls, self.period = more.calls or self.calls, more.period
        self.traces, self.retaken = self.traces and more.traces, self.retaken + more.retaken

    def sampled(self, seen: Seen) -> None:
        """Keep what perf saw from its first step to its last."""
        if self.steps:
            first, last = self.steps[0][0], self.steps[-1][1]
            self.samples += [sample for sample in seen.samples if first <= sample.time <= last]
            self.switches += [switch for switch in seen.switches if first <= switch.time <= last]
            self.page_faults += [fault for fault in seen.faults if first <= fault.time <= last]


@dataclass(frozen=True)
class Round:
    """A round of a process of a side."""

    side: int  # 0 or 1: of the two that are compared
    process: int
    number: int  # in its process
    seconds: float  # from the beginning of the first round to its end
    ended: bool  # whether `watched` is what was seen after the last round, which came before by itself
    watched: Watched
    about: dict[str, Any] = field(default_factory=dict)  # in the first, what the process reports of itself


@dataclass
class Recording:
    """Observations of one program's steps."""

    program: dict[str, Any]  # its words, interpreter, framework, threads, heap, where its steps end
    processes: list[Watched] = field(default_factory=list)
    started: Watched | None = None  # plain steps on its initial heap, where the others are on one that keeps memory
    called: list[Called] = field(default_factory=list)  # operations of some steps, with their shapes
    ended: str = ""  # how the program ended

    @property
    def threads(self) -> int:
        """Threads of the program; 1 where it does not tell."""
        return int(self.program.get("threads") or 1)

    @property
    def name(self) -> str:
        """Name of the program's file."""
        return str(self.program["script"]).rpartition("/")[2]


def pairs(rounds: Sequence[Round]) -> list[Taken]:
    """Return how far each pair of processes came: their last common round, and whether both ended."""
    taken = []
    for process in sorted({round_.process for round_ in rounds}):
        of_process = [round_ for round_ in rounds if round_.process == process]
        last = [
            max((round_.number for round_ in of_process if round_.side == side), default=-1) for side in range(SIDES)
        ]
        ended = len({round_.side for round_ in of_process if round_.ended}) == SIDES
        taken.append(Taken(process, min(last), max(round_.seconds for round_ in of_process), ended))
    return taken


def counting(taken: Sequence[Taken]) -> list[Taken]:
    """Return the pairs with enough rounds."""
    return [pair for pair in taken if pair.number + 1 >= FEWEST]


def processes(rounds: Sequence[Round], side: int) -> list[Watched]:
    """Return the processes of a side that count, each with the rounds that its pair has too."""
    merged = []
    for pair in counting(pairs(rounds)):
        process = Watched()
        for round_ in rounds:
            if (round_.side, round_.process) == (side, pair.generation) and round_.number <= pair.number:
                process.add(round_.watched)
        merged.append(process)
    return merged
