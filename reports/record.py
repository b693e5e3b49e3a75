"""The records of a run file. Base units throughout: seconds, bytes, FLOP. `null` stands for unknown or unbounded.

Format history: 1 — the first. Fields may be added, never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from reports import stats

FORMAT = 1

Status: TypeAlias = Literal["planned", "skipped", "built", "ran", "ok", "unreliable", "contended", "wrong", "failed"]
TIMED = ("ok", "unreliable", "contended")
REASONED = ("skipped", "wrong", "failed")
READS = "read "  # how the name of a ceiling in bytes a second begins


@dataclass(frozen=True)
class Seconds:
    """Time of one use: median and its interval, from order statistics, in rounds that hang together."""

    median: float  # seconds
    low: float | None  # lower end; null: unbounded
    high: float | None  # upper end; null: unbounded
    confidence: float  # of the interval, 0.95

    @classmethod
    def of(cls, samples: Any) -> Seconds:
        """Return the time of samples in the order taken."""
        import numpy as np

        median, *ends = stats.order_interval(np.asarray(samples))
        low, high = (None if end != end else end for end in ends)  # NaN: unbounded
        return cls(median, low, high, stats.SHOWN)


@dataclass(frozen=True)
class Result:
    """One case of a contest. Only ok, unreliable and contended results carry times."""

    name: str  # op/field:value/…/variant:…/threads:…; unique in its contest, and parsed back by micro
    contest: str  # name of the contest it belongs to
    role: str  # measured, canary or ceiling
    op: str  # operation, a folder of kernels/ops
    problem: dict[str, Any]  # every field of the problem, defaults too
    variant: str  # row of the operation's table, family:parameter, or the user's own module:NAME
    device: str  # cpu, cuda:0, fake …
    threads: int  # of the library that ran
    status: Status  # see above; only ok, unreliable and contended carry times
    reason: str | None = None  # why skipped, wrong or failed; one line
    cold: tuple[str, ...] = ()  # names of the operands that were not in cache
    isa: str | None = None  # instruction set asked for; null: none was
    heap: str = "default"  # policy of the allocator: default, keep
    preload: str = "none"  # what was loaded before its libraries: mkl-intel, jemalloc …, several joined by +
    interpreter: str | None = None  # Python, where it is not the one of the environment
    data: str = "normal"  # what the inputs were drawn from
    error: float | None = None  # worst absolute error against float64
    error_bound: float | None = None  # largest honest error at that element
    precision: str = "fp32"  # unit roundoff the bound stands for
    kernel: str | None = None  # version and kernel family as the library tells, or file and digest
    isa_observed: str | None = None  # instruction set the kernel really uses
    blas: str | None = None  # the call made, in the library's own column-major terms
    clock: str | None = None  # of samples: cpu (of the process, with its own waits), wall, the device's (event: CUDA's)
    seconds: Seconds | None = None  # of one use
    flops_per_second: float | None = None  # nominal FLOP over the median; of a ceiling without what others took of it
    bytes_per_second: float | None = None  # nominal bytes over the median, over a link once each; of a ceiling the same
    work: dict[str, float] | None = None  # really executed: flops, bytes
    percent_of_ceiling: float | None = None  # of the nearer of its two ceilings
    ceiling: str | None = None  # which one, `read …` of bytes a second, `…, 2 threads`; of a ceiling: its own name
    samples: tuple[float, ...] = ()  # seconds of one use, every visit in the order taken, rejected ones too
    wall_samples: tuple[float, ...] = ()  # the same by the wall, where the samples are processor time
    rounds: tuple[int, ...] = ()  # round of each sample
    processes: tuple[int, ...] = ()  # process of each sample, where there were several one after another
    placements: tuple[int, ...] = ()  # address of the first operand in each round, bytes into its arena
    rejected: tuple[int, ...] = ()  # rounds that lost time to others and are in no time and no ratio
    launches: int | None = None  # in one visit
    uses: int = 1  # that one launch serves; times are per use
    faults: int | None = None  # page faults of the whole contest
    canary: dict[str, Any] | None = None  # seconds of kernels of known cost, as often as they were taken
    setup_seconds: float | None = None  # compile, plan, pack, allocate
    workspace: int = 0  # bytes the kernel holds beside its operands
    workspace_limit: int | None = None  # bytes it was allowed there; null: as many as it likes
    warnings: tuple[str, ...] = ()  # what makes its times less than plain
    repeat: str = ""  # the command that measures it again
    evidence: str | None = None  # file of what a wrong kernel left
    identity: dict[str, Any] | None = None  # of a framework: version, libraries, threads, flags, affinity
    proof: str | None = None  # of a framework: what its equal work was proven against
    step: dict[str, float] | None = None  # of a framework: system seconds, faults, switches, peak bytes …
    axes: dict[str, str] = field(default_factory=dict)  # by axis: word (its value needs no name) or bytes
    witnesses: int = 0  # visits of which a timed launch was compared with float64, at its place and on its data
    digests: dict[str, str] | None = None  # of fields that are data, by field; null: it has none
    descriptor: str | None = None  # what another benchmark takes for it: of a convolution benchdnn's --dir and sizes
    waits: float | None = None  # share of its time that it waited voluntarily, which counts
    footprint: int | None = None  # bytes of its working set; null: not known
    settings: dict[str, Any] | None = None  # by name, changed ones that have no field here
    lost: float | None = None  # share of its rounds that were rejected or lost more than 1 % of their time to others

    def __post_init__(self) -> None:
        if (self.seconds is not None) != (self.status in TIMED):
            raise ValueError(f"{self.name}: a result {self.status} {'has' if self.seconds else 'lacks'} a time")
        if self.status in REASONED and not self.reason:
            raise ValueError(f"{self.name}: a result {self.status} without its reason")

    @property
    def by_reads(self) -> bool:
        """True for a ceiling in bytes a second, and for a case whose nearer ceiling is such a one."""
        return (self.ceiling or "").startswith(READS)


@dataclass(frozen=True)
class Replicate:
    """A comparison as one of several runs of its contest saw it, each in processes of its own."""

    ratio: float | None  # time of the contender over time of the baseline
    low: float | None  # of its 95 % interval; null: unbounded
    high: float | None  # of its 95 % interval; null: unbounded
    verdict: str  # of that run alone


@dataclass(frozen=True)
class Comparison:
    """Contender against baseline: time of one use over time of one use."""

    contest: str  # name
    differs: str  # the one thing in which its cases differ
    baseline: str  # name of a result of that contest
    contender: str  # name of another
    ratio: float | None  # time of the contender over time of the baseline, paired in rounds
    low: float | None  # of the interval; null: unbounded
    high: float | None  # of the interval; null: unbounded
    confidence: float  # of the interval shown, 0.95
    verdict: str  # slower, faster, same, unresolved, not comparable; from a 99 % interval and the margin
    reason: str | None  # why unresolved or not comparable
    margin: float  # ratios within ± this count as the same
    target: float  # half-width at which measuring stopped
    work_ratio: float = 1.0  # executed FLOP (or bytes) of the contender over the baseline's
    scope: str = "within this process"  # where the interval holds
    notes: tuple[str, ...] = ()  # such as: the ratio itself wanders
    path: tuple[str, ...] = ()  # how it was timed: wall, cpu, one look, fixed placement, python, threads, lockstep …
    next_low: float | None = None  # the same command again: its ratio lies above this
    next_high: float | None = None  # … and below this, 95 times in 100; null: the spread between runs is not known
    replicates: tuple[Replicate, ...] = ()  # what each of several runs said, where there were several
    interval: str | None = None  # what it is over, and how their mean is trimmed; null: none
    p: float | None = None  # smallest error at which the verdict would stand, its looks counted; null: as above

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
    differs: str  # the one thing in which its cases differ; begins `work: differs` where work does
    results: tuple[Result, ...]  # every case, skipped and failed ones too
    comparisons: tuple[Comparison, ...]  # every pair
    seconds: dict[str, float] = field(default_factory=dict)  # spent: measuring, setup, and of measuring witnessing
    stopped: str | None = None  # why the rounds ended
    system: dict[str, float] = field(
        default_factory=dict
    )  # what others took, see micro/worker/counters.py; a GPU's clocks at the end
    kind: str = "contest"  # contest
    loop: float | None = None  # seconds of the measuring loop between two launches, where calls are short
    interrupted: bool = False  # has the rounds until an interrupt; a later line of the same name takes its place

    @property
    def measured(self) -> tuple[Result, ...]:
        """Results of its cases, without canaries and ceilings."""
        return tuple(result for result in self.results if result.role == "measured")

    @property
    def compared(self) -> list[tuple[Comparison, Result, Result]]:
        """Each comparison with its contender and its baseline."""
        by_name = {result.name: result for result in self.measured}
        return [(x, by_name[x.contender], by_name[x.baseline]) for x in self.comparisons]


@dataclass(frozen=True)
class Environment:
    """Machine and installation of a run. `facts` are equal between two starts on one and make the digest."""

    digest: str  # of the facts: two runs with one digest ran on one installation
    facts: dict[str, Any]  # the same between two starts: processor, packages, compiler, commit, affinity …
    state: dict[str, Any]  # so at this start: load, clock, seed, what each device is, the last self-test's figures …
    command: str  # as typed
    started: str  # UTC
    format: int = FORMAT  # of the file
    kind: str = "environment"  # environment


@dataclass(frozen=True)
class Note:
    """Anything else worth keeping: a benchmark's conclusion, the self-test's figures."""

    topic: str  # answer, lacks, kernels, selftest, ab, attribution, round, watched …
    data: dict[str, Any]  # free
    kind: str = "note"  # note


@dataclass(frozen=True)
class Expected:
    """Seconds of a step, changed less unchanged: what a change brings is below zero."""

    seconds: float  # its center
    low: float  # lower end of its interval
    high: float  # upper end
    confidence: float  # of the interval: 0.9


@dataclass(frozen=True)
class Prediction:
    """The expected effect of a change of a step, written before the changed step is timed.

    A second record of the same id has the measured effect too; the second counts."""

    id: str  # the same of both lines
    network: str  # whose step it is
    framework: str  # as it was unchanged
    change: str  # as typed
    batch: int  # samples of the step; 0: of a program of one's own, which tells none
    phase: str  # of it: step, gradient, forward
    threads: int  # of the unchanged step
    step: float  # seconds of the unchanged step: as watched, then as timed in turns
    predicted: Expected | None  # null: not predictable
    parts: dict[str, float] = field(default_factory=dict)  # of what is predicted: seconds by kernel
    effect: str = ""  # what shows that the change is in the process
    costs: str = ""  # what it changes beside the time
    measured: Expected | None = None  # null: not measured yet, or it could not be
    resolution: float | None = None  # seconds to within which two unchanged steps in the same rounds are alike
    verdict: str | None = None  # confirmed, refuted, below resolution; null: see the reason
    reason: str | None = None  # why there is no prediction, no measurement, or no verdict
    contest: str | None = None  # in which it was measured
    noise: float = 0.0  # seconds of the interval for what the rounds to be measured will be off by
    kind: str = "prediction"  # prediction


@dataclass(frozen=True)
class Run:
    """All records of a run file."""

    environment: Environment  # first line
    contests: tuple[Contest, ...] = ()  # in the order measured
    notes: tuple[Note, ...] = ()  # in the order written
    predictions: tuple[Prediction, ...] = ()  # of each change the last line
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
