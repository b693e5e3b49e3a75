"""Messages between the driver and a worker: each request is served by the worker's host and says what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from micro.planning.contest import Case

if TYPE_CHECKING:
    from kernels.problem import Array
    from micro.worker.check import Passed
    from micro.worker.counters import Counters

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Serves(Protocol):
    """What a host does on request; each method is one of the requests below."""

    def prepare(self, case: Case) -> PreparedCase: ...

    def check(self, case: Case, seed: int, evidence: Path | None = None, keep: bool = False) -> Passed: ...

    def names(self, cases: Sequence[Case]) -> list[tuple[str, ...]]: ...

    def open(self, cases: Sequence[Case], mine: Sequence[bool], seed: int) -> list[list[float]]: ...

    def settle(self, calls: Sequence[Sequence[float]], visit: float) -> ContestCost: ...

    def look(self, first: int, rounds: int, only: int | None = None, canary: bool = True) -> RoundBatch: ...

    def close(self) -> None: ...

    def running(self) -> int: ...


class Message(Protocol[R_co]):
    """One message to a worker. `on` serves it there."""

    def on(self, host: Serves) -> R_co: ...


@dataclass(frozen=True)
class Prepare:
    """Compile, plan, pack and allocate for a case."""

    case: Case

    def on(self, host: Serves) -> PreparedCase:
        return host.prepare(self.case)


@dataclass(frozen=True)
class Check:
    """One launch for each probe against float64; what a wrong kernel leaves goes into the folder `evidence`, its
    operands too if they are to be kept."""

    case: Case
    seed: int
    evidence: Path | None = None
    keep: bool = False

    def on(self, host: Serves) -> Passed:
        return host.check(self.case, self.seed, self.evidence, self.keep)


@dataclass(frozen=True)
class Names:
    """The device's own names of the kernels of one launch of each case, which is traced."""

    cases: tuple[Case, ...]

    def on(self, host: Serves) -> list[tuple[str, ...]]:
        return host.names(self.cases)


@dataclass(frozen=True)
class Open:
    """Lay out a contest; answers seconds of one launch of each part of each case that is `mine`."""

    cases: tuple[Case, ...]
    mine: tuple[bool, ...]
    seed: int

    def on(self, host: Serves) -> list[list[float]]:
        return host.open(self.cases, self.mine, self.seed)


@dataclass(frozen=True)
class Settle:
    """How the open contest is run, decided alike in all its workers from the seconds of every launch."""

    calls: list[list[float]]
    visit: float

    def on(self, host: Serves) -> ContestCost:
        return host.settle(self.calls, self.visit)


@dataclass(frozen=True)
class Look:
    """Rounds `first` to `first + rounds` of the open contest; `only` one case where workers take turns."""

    first: int
    rounds: int
    only: int | None = None
    canary: bool = True

    def on(self, host: Serves) -> RoundBatch:
        return host.look(self.first, self.rounds, self.only, self.canary)


@dataclass(frozen=True)
class Close:
    """Forget the open contest."""

    def on(self, host: Serves) -> None:
        host.close()


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """What preparing a case took and needs; kernel and instruction set as its library names them."""

    seconds: float
    uses: int
    workspace: int
    kernel: str | None
    isa: str | None


@dataclass(frozen=True, slots=True)
class ContestCost:
    """What a contest will cost, case by case: launches in a visit and its seconds; and seconds of a round, and of what
    a look does beside its rounds; of the compiled loop between two launches, where calls are so short that it tells.
    `queues`: this system says what a process is queued for."""

    launches: tuple[int, ...]
    visits: tuple[float, ...]
    round: float
    beside: float = 0.0
    loop: float = 0.0
    queues: bool = True


@dataclass(frozen=True)
class RoundBatch:
    """Rounds × cases: seconds of one use by the wall and by the processor's clock, with its own waits; share of the
    visit lost to others; place of the first operand. `launches`: of a visit, case by case, at its end, `unheld` whose
    stream was not held; `broken`: visits of each whose hold broke. `state`: the multiprocessors' clock at its end; of a
    worker's first contest temperature and power, too, as it began; `slowed`: seconds for which its clock was held
    down, by cause; `witnesses`: visits of each case, of the contest so far, whose answers were looked at,
    `witnessing`: seconds of these rounds that they took; `waits`: seconds of a use that each case waited of its own
    accord, all rounds together."""

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
    witnesses: tuple[int, ...] = ()
    witnessing: float = 0.0
    waits: tuple[float, ...] = ()
