"""Requests from driver to worker, each typed by its answer, and the answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from micro.planning.contest import Case
from micro.worker.check import Passed

if TYPE_CHECKING:
    from kernels.problem import Array
    from micro.worker.counters import Counters

R = TypeVar("R")
# How a field of two batches of rounds is joined. Arrays of samples and places are [rounds, cases]; tuples of counts,
# flags and latest values have an item per case.
SAMPLES, PLACES, COUNTS, FLAGS, LATEST, TOTAL, UNION, STATE, CAUSES = (
    {"join": way} for way in ("samples", "places", "counts", "flags", "latest", "total", "union", "state", "causes")
)


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """Setup of a prepared case; kernel and instruction set as its library reports them, or None."""

    seconds: float  # of preparing it
    uses: int  # results of one launch
    workspace: int  # bytes held beside the operands
    kernel: str | None
    isa: str | None


@dataclass(frozen=True, slots=True)
class ContestCost:
    """Predicted cost of a contest, from calibration."""

    launches: tuple[int, ...]  # per sample, of each case
    visits: tuple[float, ...]  # seconds of a sample, of each case
    round: float  # seconds of one round
    beside: float = 0.0  # seconds of a batch beside its rounds
    loop: float = 0.0  # overhead of the compiled loop per launch, in seconds; 0 where calls are long
    queues: bool = True  # the system reports how long a process waits in the run queue


@dataclass(frozen=True)
class RoundBatch:
    """Samples of a batch of rounds; arrays are [rounds, cases]."""

    wall: Array = field(metadata=SAMPLES)  # seconds of one use
    cpu: Array = field(metadata=SAMPLES)  # seconds of one use: processor time plus voluntary waits
    lost: Array = field(metadata=SAMPLES)  # share of the sample lost to other processes
    places: Array = field(metadata=PLACES)  # byte offsets of each case's first operand
    canary: dict[str, float] = field(metadata=UNION)  # median seconds, by canary
    counters: Counters = field(metadata=TOTAL)
    faults: int = field(metadata=TOTAL)  # page faults
    seconds: float = field(metadata=TOTAL)
    # The device's clock at the end; in a worker's first contest also temperature and power.
    state: dict[str, float] = field(metadata=STATE, default_factory=dict)
    launches: tuple[int, ...] = field(metadata=LATEST, default=())  # per sample at the end, by case
    broken: tuple[int, ...] = field(metadata=COUNTS, default=())  # samples of each case whose stream hold broke
    unheld: tuple[bool, ...] = field(metadata=FLAGS, default=())  # cases whose stream was not held
    # Seconds with the device's clock lowered, by cause.
    slowed: dict[str, float] = field(metadata=CAUSES, default_factory=dict)
    witnesses: tuple[int, ...] = field(metadata=LATEST, default=())  # verified samples of each case so far
    witnessing: float = field(metadata=TOTAL, default=0.0)  # seconds that verification took in these rounds
    waits: tuple[float, ...] = field(metadata=COUNTS, default=())  # seconds of voluntary wait per use, summed


class Message(Generic[R]):
    """A request to a worker, served by the host's method of its name: `RunRounds` by `run_rounds`."""

    def on(self, host: Any) -> R:
        """Call the host's method with the request's fields and return its answer."""
        method = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        answer: R = getattr(host, method)(**vars(self))
        return answer


@dataclass(frozen=True)
class Prepare(Message[PreparedCase]):
    """Request to compile, plan, pack and allocate for a case."""

    case: Case


@dataclass(frozen=True)
class Check(Message[Passed]):
    """Request to check a case against float64.

    `evidence`: folder for evidence of a wrong answer; `keep`: with the operands."""

    case: Case
    seed: int
    evidence: Path | None = None
    keep: bool = False


@dataclass(frozen=True)
class Names(Message[list[tuple[str, ...]]]):
    """Request to trace one launch of each case, answered by the device's names of its kernels."""

    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Open(Message[list[list[float]]]):
    """Request to lay out a contest, answered by the seconds of a launch of each part of `mine` cases."""

    cases: tuple[Case, ...]
    mine: tuple[bool, ...]
    seed: int


@dataclass(frozen=True)
class Calibrate(Message[ContestCost]):
    """Request to choose launches per sample from launch times, alike in all workers of a contest."""

    calls: list[list[float]]  # seconds of a launch of each part of each case
    visit: float  # target seconds of a sample


@dataclass(frozen=True)
class RunRounds(Message[RoundBatch]):
    """Request to run rounds `first` to `first + rounds - 1`; `only`: one turn's case, or None."""

    first: int
    rounds: int
    only: int | None = None
    canary: bool = True


@dataclass(frozen=True)
class Close(Message[None]):
    """Request to close the open contest."""
