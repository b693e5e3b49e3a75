"""Properties of kinds of device, known without opening a device: clock, settings, ceilings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ALIGNMENT = 64  # bytes: a cache line of a CPU, and its widest vector
PROCESSOR = "processor"  # the clock of a device whose kernels run in the thread that calls them

# compiled: the suite's loop in C calls C functions between two readings of the clock. held: a sample is enqueued on a
# stalled stream, so that no gap between two launches is timed. single: one launch between two marks.
Visit: TypeAlias = Literal["compiled", "held", "single"]


@dataclass(frozen=True)
class Kind:
    """The properties of a kind of device, by which the suite distinguishes devices."""

    name: str  # the name of the kind's file
    first: str  # the name that a user types for the kind's first device
    kernels: str  # `device` of the variants that run on this kind
    clock: str = PROCESSOR  # "processor", or a record's word for the device's clock
    tick: float = 1e-9  # resolution of the clock in seconds
    visit: Visit = "compiled"  # order of a sample
    queue: int = 0  # kernels that fit behind a hold before enqueueing blocks the caller
    alignment: int = ALIGNMENT  # bytes; every operand's address is a multiple, as in programs
    refuses: Mapping[str, str] = field(default_factory=dict)  # reason by refused setting
    flushes: bool = False  # caches can be emptied, though only all at once
    ceilings: tuple[str, ...] = ()  # operations with a ceiling variant, which bounds all other operations
    isas: Callable[[], tuple[str, ...]] = tuple  # instruction sets of multiply-adds, narrowest first
    dtypes: tuple[str, ...] = ("fp32",)  # element types that the units multiply
    undivided: bool = False  # one launch occupies all of the device instead of a core
    caches: tuple[int, ...] = ()  # usual bytes from the first level on, for plans without a device
    first_answer: float = 0.0  # seconds to allow at least for a provider's first kernel to load and compile
    sticky: bool = False  # an error may affect later launches of its process
    profiler: Literal["", "perf", "ncu"] = ""  # that profiles single launches; "": none
    scripted: bool = False  # times come from a script, and answers from references: the fake device

    @property
    def own_clock(self) -> bool:
        """True if the device's clock times kernels, instead of the host's."""
        return self.clock != PROCESSOR

    @property
    def compiled(self) -> bool:
        """True if launches are C functions that a compiled loop on this machine can call."""
        return self.visit == "compiled"

    def to_record(self, settings: Iterable[str]) -> dict[str, Any]:
        """Return the kind's fields in a run's record; `settings`: names, recorded unless refused."""
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
