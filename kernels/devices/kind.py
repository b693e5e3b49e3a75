"""Kinds of device without an open one: clock, order of a sample, settings obeyed, ceilings."""

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
    """The properties of all devices of one file, by which the suite distinguishes devices."""

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
        """True if a clock other than the caller's times its kernels."""
        return self.clock != PROCESSOR

    @property
    def compiled(self) -> bool:
        """True if launches are C functions that a compiled loop on this machine can call."""
        return self.visit == "compiled"

    def to_record(self, settings: Iterable[str]) -> dict[str, Any]:
        """Return the record of an environment; `settings`: names of those that may be obeyed."""
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
