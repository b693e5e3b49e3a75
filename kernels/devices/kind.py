"""What a device is, without opening it: its clock, the order of a visit, what it obeys, what bounds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ALIGNMENT = 64  # bytes: a cache line of a CPU, and its widest vector
PROCESSOR = "processor"  # the clock of a device whose kernels run in the thread that calls them

# compiled: our loop in C calls C functions between two readings of the clock. held: everything is enqueued behind a
# stream that is held, so that no gap between two launches is timed. single: one launch between two marks.
Visit: TypeAlias = Literal["compiled", "held", "single"]


@dataclass(frozen=True)
class Kind:
    """What all devices of one file are. A benchmark, a worker and a report ask this, and never which device it is.

    `name`: its file's. `first`: what a person types for the first one of it. `kernels`: of which kind the rows of
    operations' tables are that it runs.

    `clock`: PROCESSOR, or the word in a record for times by a clock of its own; `tick`: seconds between two readings
    of it at best. `visit`: the order of a visit; `queue`: kernels that it takes behind a hold before it blocks their
    caller. `alignment`: bytes; every operand's address is a multiple, as programs on this device have them.

    `refuses`: settings that it does not obey, and why; `flushes`: whether its caches can be emptied as a whole, of one
    that refuses single operands out of cache. `ceilings`: operations of which a row bounds everything else;
    `isas`: its instruction sets of multiply-adds, narrowest first. `dtypes`: element types that its units multiply.
    `undivided`: one launch takes all of it, so that what takes one core seconds takes it no time. `caches`: bytes, from
    the first level to the last, of a usual one: for a plan where none is here to be asked.

    `first_answer`: seconds at least that a provider's first kernel has to load and compile. `sticky`: an error may stay
    with the process that had it. `profiler`: the tool that looks at one launch of it. `scripted`: its time is a
    script's, and it answers in the place of kernels that are missing here.
    """

    name: str  # of its file
    first: str  # what a user types for the first device of the kind
    kernels: str  # kind of device in operations' tables whose rows run here
    clock: str = PROCESSOR  # or the word in a record for a clock of the device
    tick: float = 1e-9  # seconds between two readings of the clock, at best
    visit: Visit = "compiled"
    queue: int = 0  # kernels behind a hold before their caller blocks
    alignment: int = ALIGNMENT  # bytes; every operand's address is a multiple, as in programs
    refuses: Mapping[str, str] = field(default_factory=dict)  # settings not obeyed, and why
    flushes: bool = False  # caches can be emptied, though only as a whole
    ceilings: tuple[str, ...] = ()  # operations of which a row bounds everything else
    isas: Callable[[], tuple[str, ...]] = tuple  # instruction sets of multiply-adds, narrowest first
    dtypes: tuple[str, ...] = ("fp32",)  # element types that the units multiply
    undivided: bool = False  # one launch takes the whole device, not a core
    caches: tuple[int, ...] = ()  # usual bytes from the first level on, for plans without a device
    first_answer: float = 0.0  # least seconds in which a provider's first kernel loads and compiles
    sticky: bool = False  # an error may stay with its process
    profiler: Literal["", "perf", "ncu"] = ""  # of single launches
    scripted: bool = False  # times are a script's; answers stand in for missing kernels

    @property
    def own_clock(self) -> bool:
        """Whether its kernels are timed by another clock than their caller's."""
        return self.clock != PROCESSOR

    @property
    def compiled(self) -> bool:
        """Whether launches are C functions that a compiled loop on this machine can call."""
        return self.visit == "compiled"

    def to_record(self, settings: Iterable[str]) -> dict[str, Any]:
        """Return what an environment and the doctor report of it; `settings`: names of those that it may obey."""
        return {
            "kind": self.name,
            "kernels": self.kernels,
            "clock": self.clock,
            "tick": self.tick,
            "visit": self.visit,
            "alignment": self.alignment,
            "obeys": [name for name in settings if name not in self.refuses],
            "ceilings": list(self.ceilings),
        }
