"""The records of explanations (why two steps differ in time) and of breakdowns (one program's step).

Run files keep them as the data of notes, so fields may be added with a default, never renamed. Sides are `a` and `b`;
a program's step has only side `a`. Base units throughout: seconds, bytes, FLOP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reports.gate import Gate

RESIDUAL = "residual"  # name of the bar of time that no cell accounts for


@dataclass(frozen=True)
class Bar:
    """Part of the gap: all cells of a cause (column), layer or phase; or the residual."""

    name: str
    a: float  # seconds of a step
    b: float
    low: float | None  # of the 95 % interval of a − b; null: not known
    high: float | None
    sure: bool  # the difference is certain, as docs/explain.md defines

    @property
    def gap(self) -> float:
        """Seconds of A less those of B."""
        return self.a - self.b

    @property
    def alone(self) -> bool:
        """True if the bar's interval, tested by itself, excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Cell:
    """Seconds that a row of the step and a column (a kind of work) take on each side."""

    row: str  # such as `fc1 wgrad`; rows that are served by one operation are merged
    column: str  # gemm, packing, copy, OS memory, idle …
    a: float  # seconds of a step
    b: float
    low: float  # of the 95 % interval of a − b
    high: float
    work: float | None  # part of a − b by the amount of work; null: neither work nor rate
    rate: float | None  # part of a − b by the rate
    amount: dict[str, float | None]  # work by side, in the column's unit: FLOP, bytes, faults, calls
    seen: dict[str, str | None]  # by side, the kernel with most of the cell's samples
    members: tuple[str, ...]  # the rows that are merged in the cell
    sure: bool = True  # the difference is certain: by itself, or within a cause whose difference is certain
    how: dict[str, str | None] = field(default_factory=dict)  # by side, a product's operand layout: NN, NT …
    repeat: str = ""  # the command that measures the cell's operation alone
    phase: str = ""  # forward, backward, update …

    @property
    def gap(self) -> float:
        """Seconds of A less those of B."""
        return self.a - self.b

    def seconds(self, side: str) -> float:
        """Return seconds of a step on side `a` or `b`."""
        return self.a if side == "a" else self.b


@dataclass(frozen=True)
class Agreement:
    """A cross-check of a row of at least a twentieth of the step: its time by trace and by replay."""

    side: str
    row: str
    trace: float  # seconds by spans and samples
    replay: float | None  # seconds of the row's calls, replayed; null: not replayed
    sigma: float  # standard deviation of the difference
    verdict: str  # agree, disagree, cannot tell, one witness


@dataclass(frozen=True)
class Headroom:
    """The possible saving of a row: its product or pass measured alone against its time in the step."""

    row: str
    repeat: str  # the command that measured it
    best: str  # its fastest variant
    seconds: float  # time of that variant, operands out of cache
    took: float  # seconds in the step, on the slower side
    left: float  # share of `took` that the best variant does not need


@dataclass(frozen=True)
class Explanation:
    """The gap between two steps, split into cells that sum to the gap with the residual."""

    network: str
    batch: int
    phase: str  # forward, gradient, step
    threads: int
    clock: str  # of the steps: `processor and waiting`, or wall
    runs: int  # processes of each side
    seconds: float  # that watching took
    a: str  # name of the side: the framework, and the settings in which the two differ
    b: str
    step: dict[str, float]  # by side, a plain step
    gap: float  # step a − step b
    interval: tuple[float, float]  # of the gap, 95 %
    resolution: float  # half of the interval's width
    cells: tuple[Cell, ...]  # largest difference first
    residual: dict[str, float]  # by side, seconds of the step in no cell
    closure: dict[str, dict[str, float | None]]  # by side: how far samples, spans, names, replays account for a step
    levels: dict[str, dict[str, float]]  # by side: a step under each instrument over a plain one
    agreement: tuple[Agreement, ...]
    waterfall: dict[str, tuple[tuple[str, float], ...]]  # the gap by cause, layer and phase
    faults: dict[str, float]  # by side, page faults of a step
    system: dict[str, float]  # by side, system time of a plain step per thread, by the operating system's accounting
    products: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)  # by side, from its libraries' log
    algorithms: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # by side: convolution, its kernel
    watched_system: dict[str, float] = field(default_factory=dict)  # the same of watched steps
    identity: tuple[dict[str, Any], ...] = ()  # of A and B: version, libraries, threads …
    conditions: tuple[str, ...] = ()  # limits of these figures, in sentences
    named: tuple[Cell, ...] = ()  # the cells that the sentences name
    headroom: tuple[Headroom, ...] = ()
    sentences: tuple[str, ...] = ()
    bars: dict[str, tuple[Bar, ...]] = field(default_factory=dict)  # by cause, layer, phase: they sum to the gap
    gate: Gate | None = None  # outcome of --gate; null: not asked for

    def __post_init__(self) -> None:
        if "cause" not in self.bars:
            raise ValueError("an explanation without `bars`, from an earlier commit")
        for what in (self.step, self.residual, self.closure, self.levels):
            if not what.keys() >= {"a", "b"}:
                raise ValueError(f"an explanation without its side {'b' if 'a' in what else 'a'}")

    def name(self, side: str) -> str:
        """Return the name of side `a` or `b`."""
        return self.a if side == "a" else self.b


@dataclass(frozen=True)
class Operation:
    """An operation of a cell: its seconds of a step by samples, its calls and their most frequent shape."""

    name: str  # as the framework names it, such as `scatter_add_`
    seconds: float
    calls: float  # of a step; 0: not recorded
    shape: str = ""  # of the largest input, such as 80000×64


@dataclass(frozen=True)
class Part:
    """Seconds of a step in one row (a module's path and a phase) and one column (a kind of work)."""

    row: str  # `net.layer1.conv forward`; in parentheses: outside all modules
    path: str
    phase: str  # forward, backward, update, recompute, data, loss …
    column: str
    a: float
    low: float  # of the 95 % interval
    high: float
    work: float | None  # in the unit of the column; null: not known
    unit: str | None  # FLOP, bytes, page faults, calls
    basis: str  # origin of the work's figure: measured, nominal, shared out, or nothing
    rate: float | None  # work a second
    seen: str | None  # the kernel with most of the samples
    calls: float = 0.0  # operations of a step
    repeat: str = ""  # the command that measures the largest of these operations alone
    bytes: float | None = None  # least bytes read and written, if `work` is in FLOP
    dtype: str = ""  # type of most of the FLOP: float32, bfloat16 …
    operations: tuple[Operation, ...] = ()  # the longest first


# The key in `ceilings` of the bound for products of each type.
PEAKS = {
    "float32": "flops",
    "float64": "flops_f64",
    "bfloat16": "flops_bf16",
    "float16": "flops_f16",
    "int8": "flops_int8",
}


def large(types: Mapping[str, float]) -> dict[str, float]:
    """Return the types with at least 1 % of the FLOP, with their FLOP."""
    return {name: flops for name, flops in types.items() if flops >= 0.01 * sum(types.values())}


def in_type(dtype: str) -> str:
    """Return ` in bfloat16` as a suffix for names of products; empty for float32."""
    return "" if dtype in ("", "float32") else f" in {dtype}"


@dataclass(frozen=True)
class Share:
    """The share of a step that one kind of work takes: its time, amount, rate and ceiling."""

    name: str
    a: float
    low: float
    high: float
    work: float | None
    unit: str | None
    rate: float | None
    ceiling: str | None = None  # what bounds it on this machine
    percent: float | None = None  # rate as a share of the ceiling
    least: float | None = None  # seconds that the work takes at the ceiling: a lower bound
    left: float | None = None  # seconds above that lower bound
    dtype: str = ""  # types of the FLOP, the type of most FLOP first

    @property
    def is_above(self) -> bool:
        """True if the printed share of the ceiling exceeds 100 %: then one of the two figures is wrong."""
        return round(100 * (self.percent or 0.0)) > 100


@dataclass(frozen=True)
class Module:
    """A node of the module tree, with its submodules. `count`: number of like siblings folded into it."""

    path: str
    depth: int
    count: int
    phases: dict[str, float]  # seconds of a step
    column: str  # the kind of work that takes most of the time

    @property
    def name(self) -> str:
        """Last part of the path, or the full path of an outermost module."""
        name = self.path if self.path.startswith("(") or self.depth == 0 else self.path.rpartition(".")[2]
        return f"{name} ×{self.count}" if self.count > 1 else name

    @property
    def total(self) -> float:
        """Seconds of a step."""
        return sum(self.phases.values())


OPERATING = "operating system"  # name of the cross-check of the system time
AGREES = 0.1  # share of a row's seconds by which the saving of a step without the row may differ
NARROW = 0.25  # share of a row's seconds: a wider interval decides nothing


@dataclass(frozen=True)
class Witness:
    """A cross-check of attributed seconds by a figure that is independent of the labels."""

    name: str
    attributed: float | None  # seconds by the rows; null: not known
    seen: float
    verdict: str  # agree, disagree, cannot tell
    words: str


@dataclass(frozen=True)
class Fastest:
    """The suite's fastest kernel for an operation's problem, timed alone with operands out of cache."""

    row: str
    repeat: str
    variant: str
    seconds: float  # of one call
    took: float  # of one call in the step
    left: float  # seconds of a step that this kernel would save


@dataclass(frozen=True)
class Line:
    """A line of the user's program, with all that it calls in libraries."""

    file: str
    number: int
    function: str
    text: str
    seconds: float  # of a step, by samples


@dataclass(frozen=True)
class LongKind:
    """Long steps whose time is mostly spent in one function of the program, or in one line outside functions."""

    line: Line  # the longest, with the mean seconds of such a step
    every: float  # one in so many steps


@dataclass(frozen=True)
class LongSteps:
    """Rare steps that take several times as long as the regular ones, which the breakdown is of."""

    count: int  # seen among the plain steps
    every: float  # one in so many steps
    seconds: float  # mean of one
    share: float  # of the time of all steps
    place: str  # FILE:LINE of the program where most of their time was spent; empty: not seen
    text: str  # of that line
    kinds: tuple[LongKind, ...] = ()  # by where their time is spent, the longest in all first


@dataclass(frozen=True)
class CalledIn:
    """Places of an operation in a step."""

    paths: tuple[str, ...]  # of modules
    axes: int  # of its inputs, at most
    calls: int


@dataclass(frozen=True)
class Growth:
    """Growth of a program's steps with their number, by a trend test."""

    slope: float  # seconds more for each step
    low: float  # of its 95 % interval
    high: float
    first: float  # seconds of the first steps that were watched
    last: float  # … of the last
    begin: int  # number of the first step that was watched
    end: int  # … of the last
    phase: str = ""  # that grows most
    of_phase: float = 0.0  # its growth


@dataclass(frozen=True)
class Spread:
    """The middle half of a program's steps, where they vary."""

    low: float  # seconds
    high: float
    fewest: int  # operations of a traced step; 0: unknown
    most: int


@dataclass(frozen=True)
class Trial:
    """Advice that was followed in some blocks of the program's steps, in turns with unchanged blocks."""

    name: str  # fused, threads=2 …
    saves: float  # seconds of a step; negative: it takes longer
    low: float  # of the 95 % interval
    high: float


@dataclass(frozen=True)
class Breakdown:
    """The breakdown of one step into cells that sum to the step with the residual."""

    name: str  # of the program's file
    program: dict[str, Any]  # command words, interpreter, framework, threads, heap, where a step ends
    threads: int
    clock: str
    rounds: int
    seconds: float  # that watching took
    step: dict[str, float]  # a plain step
    interval: tuple[float, float]
    cells: tuple[Part, ...]  # the largest first
    residual: dict[str, float]
    kinds: tuple[Share, ...]
    modules: tuple[Module, ...]
    levels: dict[str, dict[str, float]]  # a step under each instrument over a plain one
    faults: dict[str, float]  # page faults of a step by instrument level; `started`: with the program's initial heap
    system: dict[str, float]  # system time of a plain step, per thread, by the operating system's accounting
    closure: dict[str, dict[str, float | None]]
    watched_system: dict[str, float] = field(default_factory=dict)  # the same of watched steps
    started: dict[str, float] = field(
        default_factory=dict
    )  # steps with the program's initial heap: seconds, low, high, faults
    ceilings: dict[str, float] = field(default_factory=dict)  # FLOP/s of float32 and of other types, byte/s
    types: dict[str, float] = field(default_factory=dict)  # FLOP of a step by data type
    witnesses: tuple[Witness, ...] = ()
    fastest: tuple[Fastest, ...] = ()
    conditions: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    ended: str = ""
    lines: tuple[Line, ...] = ()  # of the program, the longest first
    called: dict[str, CalledIn] = field(default_factory=dict)  # operations by name
    trials: tuple[Trial, ...] = ()
    long: LongSteps | None = None
    scale: float = 1.0  # factor of all rows, where tracing makes a step so much longer that they would exceed it
    growth: Growth | None = None
    spread: Spread | None = None
    company: float | None = None  # cores that other programs used beside plain steps; null: not known
    busy: float | None = None  # share of its available processor time that other processes took; null: not known

    def share(self, name: str) -> float:
        """Return the share of a kind of work in the step."""
        return sum(kind.a for kind in self.kinds if kind.name == name) / self.step["a"]

    def peak(self, dtype: str) -> float | None:
        """Return the FLOP/s ceiling of products of a type (an empty type is float32), or None if not measured."""
        return self.ceilings.get(PEAKS.get(dtype or "float32", ""))
