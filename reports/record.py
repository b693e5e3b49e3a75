"""The records of a run file. Base units throughout: seconds, bytes, FLOP. `null` stands for unknown or unbounded.

Format history: 1 — the first. Fields may be added, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

FORMAT = 1

Status: TypeAlias = Literal[
    "planned", "skipped", "built", "ran", "ok", "unreliable", "contended", "wrong", "failed"
]
TIMED = ("ok", "unreliable", "contended")
REASONED = ("skipped", "wrong", "failed")


@dataclass(frozen=True)
class Seconds:
    """Time of one use: median and its distribution-free interval."""

    median: float
    low: float | None
    high: float | None
    confidence: float


@dataclass(frozen=True)
class Result:
    """One case of a contest. Only ok, unreliable and contended results carry times."""

    name: str
    contest: str
    role: str
    op: str
    problem: dict[str, Any]
    variant: str
    device: str
    threads: int
    status: Status
    reason: str | None = None
    cold: tuple[str, ...] = ()
    isa: str | None = None
    heap: str = "default"
    interpreter: str | None = None
    data: str = "normal"
    error: float | None = None
    error_bound: float | None = None
    precision: str = "fp32"
    kernel: str | None = None
    isa_observed: str | None = None
    blas: str | None = None
    clock: str | None = None
    seconds: Seconds | None = None
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    work: dict[str, float] | None = None
    percent_of_ceiling: float | None = None
    ceiling: str | None = None
    samples: tuple[float, ...] = ()
    wall_samples: tuple[float, ...] = ()  # where the samples are processor time
    rounds: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()  # of each sample, where there were several one after another
    placements: tuple[int, ...] = ()
    rejected: tuple[int, ...] = ()
    launches: int | None = None
    uses: int = 1
    faults: int | None = None
    canary: dict[str, Any] | None = None
    setup_seconds: float | None = None
    workspace: int = 0
    warnings: tuple[str, ...] = ()
    repeat: str = ""
    evidence: str | None = None

    def __post_init__(self) -> None:
        if (self.seconds is not None) != (self.status in TIMED):
            raise ValueError(
                f"{self.name}: a result {self.status} {'has' if self.seconds else 'lacks'} a time"
            )
        if self.status in REASONED and not self.reason:
            raise ValueError(f"{self.name}: a result {self.status} without its reason")


@dataclass(frozen=True)
class Comparison:
    """Contender against baseline: time of one use over time of one use."""

    contest: str
    differs: str
    baseline: str
    contender: str
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    verdict: str
    reason: str | None
    margin: float
    target: float
    work_ratio: float = 1.0
    scope: str = "within this process"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contest:
    """One line of a run file: a question, its results, its comparisons."""

    contest: str
    question: str
    differs: str
    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: str | None = None
    system: dict[str, float] = field(default_factory=dict)  # seconds busy, stolen, waiting; throttled periods
    kind: str = "contest"


@dataclass(frozen=True)
class Environment:
    """Where it ran. `facts` stay the same between two starts on one installation and make the digest."""

    digest: str
    facts: dict[str, Any]
    state: dict[str, Any]
    command: str
    started: str
    format: int = FORMAT
    kind: str = "environment"


@dataclass(frozen=True)
class Note:
    """Anything else worth keeping: a benchmark's conclusion, the self-test's figures."""

    topic: str
    data: dict[str, Any]
    kind: str = "note"


@dataclass(frozen=True)
class Run:
    """A whole run file."""

    environment: Environment
    contests: tuple[Contest, ...] = ()
    notes: tuple[Note, ...] = ()
    damaged: tuple[str, ...] = ()  # lines of the file that were passed over, and why

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for contest in self.contests for result in contest.results)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(comparison for contest in self.contests for comparison in contest.comparisons)
