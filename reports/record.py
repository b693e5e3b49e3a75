"""The records of a run file. Base units throughout: seconds, bytes, FLOP. `null` stands for unknown or unbounded.

Format history: 1 — the first. Fields may be added, never renamed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from reports import stats

FORMAT = 1

Status: TypeAlias = Literal["planned", "skipped", "built", "ran", "ok", "unreliable", "contended", "wrong", "failed"]
TIMED = ("ok", "unreliable", "contended")
REASONED = ("skipped", "wrong", "failed")
READS = "read "  # prefix of the names of ceilings in bytes a second


@dataclass(frozen=True)
class Seconds:
    """Time of one use: median with an interval from order statistics that allows for correlated rounds."""

    median: float  # seconds
    low: float | None  # lower end; null: unbounded
    high: float | None  # upper end; null: unbounded
    confidence: float  # of the interval, 0.95

    @classmethod
    def of(cls, samples: Any) -> Seconds:
        """Return median and interval of samples in the order taken."""
        import numpy as np

        median, *ends = stats.order_interval(np.asarray(samples))
        low, high = (None if end != end else end for end in ends)  # NaN: unbounded
        return cls(median, low, high, stats.SHOWN)


@dataclass(frozen=True)
class Result:
    """One case of a contest. Only ok, unreliable and contended results carry times."""

    name: str  # op/field:value/…/variant:…/threads:…; unique in its contest, and parsed back by micro
    contest: str  # name of its contest
    role: str  # measured, canary or ceiling
    op: str  # operation, a folder of kernels/ops
    problem: dict[str, Any]  # every field of the problem, defaults too
    variant: str  # row of the operation's table, family:parameter, or a user's module:NAME
    device: str  # cpu, cuda:0, fake …
    threads: int  # of the library that ran
    status: Status  # see above; only ok, unreliable and contended carry times
    reason: str | None = None  # why skipped, wrong or failed; one line
    cold: tuple[str, ...] = ()  # names of the operands that were not in cache
    isa: str | None = None  # requested instruction set; null: no request
    heap: str = "default"  # policy of the allocator: default, keep
    preload: str = "none"  # libraries preloaded before its own: mkl-intel, jemalloc …, several joined by +
    interpreter: str | None = None  # path of Python, if it is not the environment's
    data: str = "normal"  # distribution of the inputs
    error: float | None = None  # worst absolute error against float64
    error_bound: float | None = None  # largest allowed error at that element
    precision: str = "fp32"  # type whose unit roundoff the bound is computed with
    kernel: str | None = None  # version and kernel family reported by the library, or file and digest
    isa_observed: str | None = None  # instruction set that the kernel actually uses
    blas: str | None = None  # the BLAS call, in the library's column-major terms
    clock: str | None = None  # of `samples`: cpu (process time and voluntary waits), wall, the device's (event: CUDA)
    seconds: Seconds | None = None  # of one use
    flops_per_second: float | None = None  # nominal FLOP over the median; ceiling: time lost to others excluded
    bytes_per_second: float | None = None  # nominal bytes over the median (link: each byte once); ceiling: as above
    work: dict[str, float] | None = None  # executed work: flops, bytes
    percent_of_ceiling: float | None = None  # of the nearer of its two ceilings
    ceiling: str | None = None  # name of that ceiling: `read …` in bytes a second, `…, 2 threads`; of a ceiling: itself
    samples: tuple[float, ...] = ()  # seconds of one use, one sample per visit in the order taken, with rejected ones
    wall_samples: tuple[float, ...] = ()  # the same by the wall clock, if `samples` are processor time
    rounds: tuple[int, ...] = ()  # round of each sample
    processes: tuple[int, ...] = ()  # process of each sample, if several ran one after another
    placements: tuple[int, ...] = ()  # address of the first operand in each round, bytes into its arena
    rejected: tuple[int, ...] = ()  # rounds that lost time to others, left out of times and ratios
    launches: int | None = None  # kernel launches in one visit
    uses: int = 1  # uses per launch; times are per use
    faults: int | None = None  # page faults of the whole contest
    canary: dict[str, Any] | None = None  # seconds of kernels of known cost, one value per run
    setup_seconds: float | None = None  # compile, plan, pack, allocate
    workspace: int = 0  # bytes that the kernel allocates beside its operands
    workspace_limit: int | None = None  # largest workspace allowed, in bytes; null: unlimited
    warnings: tuple[str, ...] = ()  # circumstances that qualify its times
    repeat: str = ""  # the command that measures the case again
    evidence: str | None = None  # file with the inputs and outputs of a wrong kernel
    identity: dict[str, Any] | None = None  # of a framework: version, libraries, threads, flags, affinity
    proof: str | None = None  # of a framework: the reference against which its equal work was proven
    step: dict[str, float] | None = None  # of a framework: system seconds, faults, switches, peak bytes …
    axes: dict[str, str] = field(default_factory=dict)  # print form by axis: word (value only) or bytes
    witnesses: int = 0  # visits in which the result of a timed launch was compared with float64
    digests: dict[str, str] | None = None  # digests of problem fields that are data, by field; null: no such field
    descriptor: str | None = None  # arguments that run the case in another benchmark, e.g. benchdnn for a conv
    waits: float | None = None  # share of its time in voluntary waits, which are part of the time
    footprint: int | None = None  # bytes of its working set; null: not known
    settings: dict[str, Any] | None = None  # non-default settings without a field of their own, by name
    lost: float | None = None  # share of its rounds that were rejected or lost more than 1 % of their time to others

    def __post_init__(self) -> None:
        if (self.seconds is not None) != (self.status in TIMED):
            raise ValueError(f"{self.name}: a result {self.status} {'has' if self.seconds else 'lacks'} a time")
        if self.status in REASONED and not self.reason:
            raise ValueError(f"{self.name}: a result {self.status} without its reason")

    @property
    def by_reads(self) -> bool:
        """True for a ceiling in bytes a second, and for a case whose nearer ceiling is in bytes a second."""
        return (self.ceiling or "").startswith(READS)


@dataclass(frozen=True)
class Replicate:
    """The result of a comparison in one of several runs of its contest, each run in separate processes."""

    ratio: float | None  # time of the contender over time of the baseline
    low: float | None  # of its 95 % interval; null: unbounded
    high: float | None  # of its 95 % interval; null: unbounded
    verdict: str  # from this run alone


@dataclass(frozen=True)
class Comparison:
    """A comparison of two cases: the contender's time of one use over the baseline's."""

    contest: str  # name
    differs: str  # the one thing in which its cases differ
    baseline: str  # name of a result of the contest
    contender: str  # name of another result of the contest
    ratio: float | None  # time of the contender over time of the baseline, paired in rounds
    low: float | None  # of the interval; null: unbounded
    high: float | None  # of the interval; null: unbounded
    confidence: float  # of the interval shown, 0.95
    verdict: str  # slower, faster, same, unresolved, not comparable; from a 99 % interval and the margin
    reason: str | None  # why unresolved or not comparable
    margin: float  # ratios within ± this count as the same
    target: float  # relative half-width of the interval at which measuring stops
    work_ratio: float = 1.0  # executed FLOP (or bytes) of the contender over the baseline's
    scope: str = "within this process"  # where the interval holds
    notes: tuple[str, ...] = ()  # e.g. that the ratio drifts between rounds
    path: tuple[str, ...] = ()  # how it was timed: wall, cpu, one look, fixed placement, python, threads, lockstep …
    next_low: float | None = None  # prediction interval of the ratio in another run of the command: lower end
    next_high: float | None = None  # … upper end, at 95 %; null: the spread between runs is not known
    replicates: tuple[Replicate, ...] = ()  # the comparison in each run, if there were several runs
    interval: str | None = None  # averaged units (rounds, processes …) and their trimming; null: no interval
    p: float | None = None  # p-value of the verdict, corrected for the batches of rounds; null: no interval

    @classmethod
    def unjudged(
        cls, contest: str, differs: str, baseline: str, contender: str, margin: float, target: float, **more: Any
    ) -> Comparison:
        """Return a comparison without a ratio."""
        known = contest, differs, baseline, contender
        return cls(*known, None, None, None, stats.SHOWN, "not comparable", None, margin, target, **more)

    def judged(self, judgment: stats.Judgment) -> Comparison:
        """Return the comparison with the interval and the verdict of its rounds."""
        shown = judgment.shown
        ratio, low, high = (shown.center, shown.low, shown.high) if shown else (None, None, None)
        verdict = {"verdict": judgment.verdict, "reason": judgment.reason, "interval": judgment.kind, "p": judgment.p}
        return replace(self, ratio=ratio, low=low, high=high, notes=judgment.notes, **verdict)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Contest:
    """One line of a run file: a question, its results, its comparisons."""

    contest: str  # name
    question: str  # in words
    differs: str  # the one thing in which its cases differ; begins `work: differs` if their work does
    results: tuple[Result, ...]  # every case, skipped and failed ones too
    comparisons: tuple[Comparison, ...]  # every pair
    seconds: dict[str, float] = field(default_factory=dict)  # time spent: measuring (with verified samples), setup …
    stopped: str | None = None  # why the rounds ended
    system: dict[str, float] = field(
        default_factory=dict
    )  # time lost to others, see micro/worker/counters.py; a GPU's clocks at the end
    kind: str = "contest"  # contest
    loop: float | None = None  # seconds of the measuring loop between two launches, if calls are short
    interrupted: bool = False  # holds the rounds before an interrupt; a later line of the same name replaces it

    @property
    def measured(self) -> tuple[Result, ...]:
        """Results of its cases, without canaries and ceilings."""
        return tuple(result for result in self.results if result.role == "measured")

    @property
    def compared(self) -> list[tuple[Comparison, Result, Result]]:
        """Each comparison with its contender and its baseline."""
        by_name = {result.name: result for result in self.measured}
        return [(x, by_name[x.contender], by_name[x.baseline]) for x in self.comparisons]

    @property
    def ranked(self) -> list[tuple[Comparison, Result, Result]]:
        """Each of `compared`; variants against one baseline by time, the fastest first, those without a time last."""
        if not self.differs.startswith("variant") or len({x.baseline for x in self.comparisons}) > 1:
            return self.compared
        return sorted(self.compared, key=lambda pair: pair[1].seconds.median if pair[1].seconds else math.inf)


@dataclass(frozen=True)
class Environment:
    """Machine and installation of a run. `facts` are equal between two starts and make the digest."""

    digest: str  # of the facts; runs with equal digests ran on the same installation
    facts: dict[str, Any]  # the same between two starts: processor, packages, compiler, commit, affinity …
    state: dict[str, Any]  # at this start: load, clock, seed, models of devices, the last self-test's figures …
    command: str  # as typed
    started: str  # UTC
    format: int = FORMAT  # of the file
    kind: str = "environment"  # environment


@dataclass(frozen=True)
class Note:
    """Anything else worth keeping: a benchmark's conclusion, the self-test's figures."""

    topic: str  # gate, answer, lacks, kernels, selftest, ab, attribution, round, watched …
    data: dict[str, Any]  # free
    kind: str = "note"  # note


@dataclass(frozen=True)
class Expected:
    """The effect of a change on a step: changed less unchanged seconds, negative if the change saves time."""

    seconds: float  # its center
    low: float  # lower end of its interval
    high: float  # upper end
    confidence: float  # of the interval: 0.9


@dataclass(frozen=True)
class Prediction:
    """The expected effect of a change of a step, written before the changed step is timed.

    A second record of the same id has the measured effect too; the second counts."""

    id: str  # equal in both records
    network: str  # name of the network or script
    framework: str  # of the unchanged step
    change: str  # as typed
    batch: int  # samples of the step; 0: unknown, for a user's program
    phase: str  # step, gradient, forward
    threads: int  # of the unchanged step
    step: float  # seconds of the unchanged step: as watched, then as timed in turns
    predicted: Expected | None  # null: not predictable
    parts: dict[str, float] = field(default_factory=dict)  # predicted effect by kernel, in seconds
    effect: str = ""  # evidence that the change is active in the process
    costs: str = ""  # other effects of the change than time
    measured: Expected | None = None  # null: not measured yet, or not measurable
    resolution: float | None = None  # seconds by which two unchanged steps in the same rounds may differ
    verdict: str | None = None  # confirmed, refuted, below resolution; null: see the reason
    reason: str | None = None  # why there is no prediction, no measurement, or no verdict
    contest: str | None = None  # name of the contest that measured it
    noise: float = 0.0  # part of the predicted interval, in seconds, for the error of the coming measurement
    kind: str = "prediction"  # prediction


@dataclass(frozen=True)
class Run:
    """All records of a run file."""

    environment: Environment  # first line
    contests: tuple[Contest, ...] = ()  # in the order measured
    notes: tuple[Note, ...] = ()  # in the order written
    predictions: tuple[Prediction, ...] = ()  # the last record of each change
    damaged: tuple[str, ...] = ()  # lines of the file that were passed over, and why; not in a file

    @property
    def commit(self) -> str:
        """Commit of the version that wrote the run."""
        return str(self.environment.facts.get("commit"))

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for contest in self.contests for result in contest.results)

    @property
    def measured(self) -> tuple[Result, ...]:
        return tuple(result for contest in self.contests for result in contest.measured)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(comparison for contest in self.contests for comparison in contest.comparisons)
