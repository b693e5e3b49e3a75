"""What a host tells of its cases: what preparing one took, what a contest will cost, what a look saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.problem import Array
    from micro.worker.counters import Counters


@dataclass(frozen=True, slots=True)
class Prepared:
    """What preparing a case told."""

    seconds: float
    uses: int
    workspace: int
    kernel: str | None
    isa: str | None


@dataclass(frozen=True, slots=True)
class Opened:
    """What a contest will cost, case by case: launches in a visit and its seconds; and seconds of a round, and of what
    a look does beside its rounds."""

    launches: tuple[int, ...]
    visits: tuple[float, ...]
    round: float
    beside: float = 0.0


@dataclass(frozen=True)
class Look:
    """Rounds × cases: seconds of one use, share of the visit lost, place of the first operand. `launches`: of a visit,
    case by case, at its end, `unheld` whose stream was not held; `broken`: visits of each whose hold broke. `state`:
    the multiprocessors' clock at its end; of a worker's first contest temperature and power, too, as it began;
    `slowed`: seconds for which its clock was held down, by cause."""

    wall: Array
    cpu: Array
    lost: Array
    places: Array
    canary: dict[str, float]
    counters: Counters
    faults: int
    seconds: float
    state: dict[str, float] = field(default_factory=dict)
    launches: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    unheld: tuple[bool, ...] = ()
    slowed: dict[str, float] = field(default_factory=dict)
