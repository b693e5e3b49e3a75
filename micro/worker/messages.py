"""Messages between driver and worker: each request is served by the host, and types its answer."""

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
# Ways in which a field of a batch of rounds joins that of another batch. Arrays of samples and places, and tuples of
# counts, flags and latest figures, have a column for each case.
SAMPLES, PLACES, COUNTS, FLAGS, LATEST, TOTAL, UNION, STATE, CAUSES = (
    {"join": way} for way in ("samples", "places", "counts", "flags", "latest", "total", "union", "state", "causes")
)


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """Time and needs of a prepared case; kernel and instruction set as its library names them."""

    seconds: float
    uses: int
    workspace: int
    kernel: str | None
    isa: str | None


@dataclass(frozen=True, slots=True)
class ContestCost:
    """Predicted cost of a contest."""

    launches: tuple[int, ...]  # per sample, of each case
    visits: tuple[float, ...]  # seconds of a sample, of each case
    round: float  # seconds
    beside: float = 0.0  # seconds of a batch beside its rounds
    loop: float = 0.0  # seconds of the compiled loop per launch, where calls are so short that it matters
    queues: bool = True  # this system reports how long a process is queued


@dataclass(frozen=True)
class RoundBatch:
    """Samples of a batch of rounds; arrays are rounds × cases."""

    wall: Array = field(metadata=SAMPLES)  # seconds of one use
    cpu: Array = field(metadata=SAMPLES)  # seconds of one use by the processor's clock, with voluntary waits
    lost: Array = field(metadata=SAMPLES)  # share of the sample lost to other processes
    places: Array = field(metadata=PLACES)  # of the first operand
    canary: dict[str, float] = field(metadata=UNION)
    counters: Counters = field(metadata=TOTAL)
    faults: int = field(metadata=TOTAL)
    seconds: float = field(metadata=TOTAL)
    # The clock at the end; at first also temperature and power.
    state: dict[str, float] = field(metadata=STATE, default_factory=dict)
    launches: tuple[int, ...] = field(metadata=LATEST, default=())  # per sample at the end, by case
    broken: tuple[int, ...] = field(metadata=COUNTS, default=())  # samples of each case whose hold broke
    unheld: tuple[bool, ...] = field(metadata=FLAGS, default=())  # cases whose stream was not held
    # Seconds with the clock held down, by cause.
    slowed: dict[str, float] = field(metadata=CAUSES, default_factory=dict)
    witnesses: tuple[int, ...] = field(metadata=LATEST, default=())  # verified samples of each case so far
    witnessing: float = field(metadata=TOTAL, default=0.0)  # seconds that verification took in these rounds
    waits: tuple[float, ...] = field(metadata=COUNTS, default=())  # seconds of a use that each case waited voluntarily


class Message(Generic[R]):
    """A request to a worker, served by the host's method of its name: `RunRounds` by `run_rounds`, with its fields."""

    def on(self, host: Any) -> R:
        """Return the host's answer."""
        method = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        answer: R = getattr(host, method)(**vars(self))
        return answer


@dataclass(frozen=True)
class Prepare(Message[PreparedCase]):
    """Request to compile, plan, pack and allocate for a case."""

    case: Case


@dataclass(frozen=True)
class Check(Message[Passed]):
    """Request for a check against float64; evidence of a wrong answer goes into a folder.

    `keep`: with the operands."""

    case: Case
    seed: int
    evidence: Path | None = None
    keep: bool = False


@dataclass(frozen=True)
class Names(Message[list[tuple[str, ...]]]):
    """Request for the device's names of the kernels of one launch of each case, which is traced."""

    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Open(Message[list[list[float]]]):
    """Request to lay out a contest, answered by seconds of a launch of each part of cases that are `mine`."""

    cases: tuple[Case, ...]
    mine: tuple[bool, ...]
    seed: int


@dataclass(frozen=True)
class Calibrate(Message[ContestCost]):
    """Request to decide how to run the open contest, alike in all its workers, from launch times."""

    calls: list[list[float]]
    visit: float


@dataclass(frozen=True)
class RunRounds(Message[RoundBatch]):
    """Request for rounds `first` to `first + rounds`; `only` a single case, for workers that take turns."""

    first: int
    rounds: int
    only: int | None = None
    canary: bool = True


@dataclass(frozen=True)
class Close(Message[None]):
    """Request to forget the open contest."""
