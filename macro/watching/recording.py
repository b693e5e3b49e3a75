"""Data of watched steps, round by round, in the same form for frameworks and for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from macro.timing.entry import FEWEST, Taken
from macro.watching.load import Load
from macro.watching.perf import PERIOD, Sample, Seen, Switch

SIDES = 2


class Event(NamedTuple):
    """Traced interval: an operation, an autograd node or a module call, from the framework's profiler."""

    name: str
    start: int  # monotonic nanoseconds
    end: int
    thread: int  # thread id of the operating system
    sequence: int  # autograd's sequence number, -1 if none
    lane: int  # thread id of the profiler
    forward: int  # lane of the forward operation that an autograd node belongs to; 0: none


class Called(NamedTuple):
    """Traced operation with the shapes, strides, types and values of its inputs."""

    event: Event
    shapes: list[Any]  # of each input; for a list of tensors, a list of shapes
    strides: list[Any]
    types: list[str]
    arguments: list[Any]  # values of the inputs that are not tensors


@dataclass
class Blocks:
    """Blocks of a process's steps by level: P0 plain, P1 spans, P2 samples, P3 both."""

    levels: dict[str, list[float]] = field(default_factory=dict)  # seconds of a step, by level
    faults: list[float] = field(default_factory=list)  # page faults of a plain step, by block
    system: list[float] = field(default_factory=list)  # seconds of a plain step in the operating system, by block
    # Steps at P3: start and end in nanoseconds; CPU seconds; seconds blocked.
    steps: list[tuple[int, int, float, float]] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)  # number of the round of each entry of `steps`
    calls: list[tuple[list[str], str | None]] = field(default_factory=list)  # replayed: rows and column of each call
    # For each replay: seconds of the same round's plain step, and of each call.
    replays: list[tuple[float, list[float]]] = field(default_factory=list)
    traces: bool = True  # whether the framework's adapter reports spans
    faulted: dict[str, list[float]] = field(default_factory=dict)  # page faults of a step, by level
    period: int = PERIOD  # nanoseconds that a sample stands for
    retaken: int = 0  # blocks that were repeated because memory grew in them
    watched_system: list[float] = field(default_factory=list)  # as `system`, of steps at P3
    load: list[Load] = field(default_factory=list)  # of each block of plain steps
    plain: list[list[float]] = field(default_factory=list)  # of a script: seconds of each plain step, by block
    at: list[int] = field(default_factory=list)  # of a script: number of the first step of each plain block


@dataclass
class Watched(Blocks):
    """Data of a watched process, or of one of its rounds."""

    spans: list[dict[str, Any]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    page_faults: list[Sample] = field(default_factory=list)  # each stands for perf.FAULTS page faults
    events: list[Event] = field(default_factory=list)  # of a script, whose spans are derived later

    def level(self, name: str, seconds: float, faults: float) -> None:
        """Add a block of steps at level `name`: seconds and page faults of a step."""
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
        """Add the part of perf's data that lies between the first and the last of `steps`."""
        if self.steps:
            first, last = self.steps[0][0], self.steps[-1][1]
            self.samples += [sample for sample in seen.samples if first <= sample.time <= last]
            self.switches += [switch for switch in seen.switches if first <= switch.time <= last]
            self.page_faults += [fault for fault in seen.faults if first <= fault.time <= last]


@dataclass(frozen=True)
class Round:
    """A watched round: its data, and the side and process in which it ran."""

    side: int  # 0 or 1: index of the compared framework
    process: int
    number: int  # counted in its process
    seconds: float  # from the beginning of the first round to its end
    ended: bool  # whether `watched` is the closing plain block after the last round, not that round itself
    watched: Watched
    about: dict[str, Any] = field(default_factory=dict)  # in round 0: identity and build that the process reports


@dataclass
class Recording:
    """Recording of a script's steps, with facts about the script and its processes."""

    program: dict[str, Any]  # arguments, interpreter, framework, threads, heap, end of a step
    processes: list[Watched] = field(default_factory=list)
    started: Watched | None = None  # plain steps on the initial heap, if the others keep freed memory
    called: list[Called] = field(default_factory=list)  # operations of some steps, with their shapes
    ended: str = ""  # how the program ended

    @property
    def threads(self) -> int:
        """Threads of the program; 1 if not recorded."""
        return int(self.program.get("threads") or 1)

    @property
    def running(self) -> int:
        """Threads of the program that can run at once, as its cores are known, and did if samples tell."""
        cores = (self.program.get("settings") or {}).get("cores", self.threads)
        seen = max((len({x.thread for x in process.samples}) for process in self.processes), default=0)
        return max(1, min(self.threads, int(cores), seen or self.threads))

    @property
    def name(self) -> str:
        """Name of the program's file or module."""
        return str(self.program["script"]).removeprefix("-m ").rpartition("/")[2]


def pairs(rounds: Sequence[Round]) -> list[Taken]:
    """Return for each pair of processes its last common round, its seconds, and whether both ended."""
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
    """Return the pairs with at least FEWEST rounds."""
    return [pair for pair in taken if pair.number + 1 >= FEWEST]


def processes(rounds: Sequence[Round], side: int) -> list[Watched]:
    """Return a side's processes with at least FEWEST rounds, cut to the rounds that both sides have."""
    merged = []
    for pair in counting(pairs(rounds)):
        process = Watched()
        for round_ in rounds:
            if (round_.side, round_.process) == (side, pair.generation) and round_.number <= pair.number:
                process.add(round_.watched)
        merged.append(process)
    return merged
