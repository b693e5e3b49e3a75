"""The records of an explanation: of why one step takes longer than another, and of one program's step taken apart.

Run files have them as the data of notes, so fields may be added, with a default, never renamed. Sides are `a` and `b`;
the one side of a program's step is `a`. Base units throughout: seconds, bytes, FLOP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RESIDUAL = "residual"  # name of the bar that is none of the others


@dataclass(frozen=True)
class Bar:
    """Part of the gap: all cells of a cause (column), layer or phase; or the residual."""

    name: str
    a: float  # seconds of a step
    b: float
    low: float | None  # of the 95 % interval of a − b; null: not known
    high: float | None
    sure: bool  # the difference is certain: docs/explain.md

    @property
    def gap(self) -> float:
        """Seconds of A less those of B."""
        return self.a - self.b

    @property
    def alone(self) -> bool:
        """True if the bar's own interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Cell:
    """Seconds that a row of the step and a column (a kind of work) take on each side."""

    row: str  # such as `fc1 wgrad`; rows that one operation serves together are one
    column: str  # gemm, packing, copy, OS memory, idle …
    a: float  # seconds of a step
    b: float
    low: float  # of the 95 % interval of a − b
    high: float
    work: float | None  # part of a − b by the amount of work; null: neither work nor rate
    rate: float | None  # part of a − b by the rate
    amount: dict[str, float | None]  # work by side, in the column's unit: FLOP, bytes, faults, calls
    seen: dict[str, str | None]  # by side, the kernel that most of its samples were in
    members: tuple[str, ...]  # the rows it is made of
    sure: bool = True  # the difference is certain: by itself, or within a cause whose difference is certain
    how: dict[str, str | None] = field(default_factory=dict)  # by side, how a product's operands lie: NN, NT …
    repeat: str = ""  # the command that measures it alone
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
    """A row of at least a twentieth of the step, timed by trace and by replay."""

    side: str
    row: str
    trace: float  # seconds by spans and samples
    replay: float | None  # seconds of its calls, replayed; null: they were not
    sigma: float  # standard deviation of the difference
    verdict: str  # agree, disagree, cannot tell, one witness


@dataclass(frozen=True)
class Headroom:
    """A named product or pass, measured by itself."""

    row: str
    repeat: str  # the command that did
    best: str  # its fastest variant
    seconds: float  # of that, operands out of cache
    took: float  # in the step, on the slower side
    left: float  # share of `took` that the best variant does not need


@dataclass(frozen=True)
class Explanation:
    """Two steps as cells, which with the residual sum to the gap."""

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
    residual: dict[str, float]  # by side, what the cells leave of the step
    closure: dict[str, dict[str, float | None]]  # by side: how far samples, spans, names, replays account for a step
    levels: dict[str, dict[str, float]]  # by side: a step under each instrument over a plain one
    agreement: tuple[Agreement, ...]
    waterfall: dict[str, tuple[tuple[str, float], ...]]  # the gap by cause, layer and phase
    faults: dict[str, float]  # by side, page faults of a step
    system: dict[str, float]  # by side, seconds of a plain step in the operating system, by its own account, a thread
    products: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)  # by side, as its libraries logged
    algorithms: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # by side: convolution, its kernel
    watched_system: dict[str, float] = field(default_factory=dict)  # the same of watched steps
    identity: tuple[dict[str, Any], ...] = ()  # of A and B: version, libraries, threads …
    conditions: tuple[str, ...] = ()  # what these figures cannot know
    named: tuple[Cell, ...] = ()  # the cells that the sentences name
    headroom: tuple[Headroom, ...] = ()
    sentences: tuple[str, ...] = ()
    bars: dict[str, tuple[Bar, ...]] = field(default_factory=dict)  # by cause, layer, phase: they sum to the gap

    def __post_init__(self) -> None:
        if "cause" not in self.bars:
            raise ValueError("an explanation without `bars`, which earlier commits did not write")
        for what in (self.step, self.residual, self.closure, self.levels):
            if not what.keys() >= {"a", "b"}:
                raise ValueError(f"an explanation without its side {'b' if 'a' in what else 'a'}")

    def name(self, side: str) -> str:
        """Return the name of side `a` or `b`."""
        return self.a if side == "a" else self.b


@dataclass(frozen=True)
class Part:
    """Seconds of a step that a row (a module's path and a phase) and a column (a kind of work) take."""

    row: str  # `net.layer1.conv forward`; in parentheses what is in no module
    path: str
    phase: str  # forward, backward, update, recompute, data, loss …
    column: str
    a: float
    low: float  # of the 95 % interval
    high: float
    work: float | None  # in the unit of the column; null: not known
    unit: str | None  # FLOP, bytes, page faults, calls
    basis: str  # how the work is known: measured, nominal, shared out, or nothing
    rate: float | None  # work a second
    seen: str | None  # the kernel that most of its samples were in
    calls: float = 0.0  # operations of a step
    repeat: str = ""  # the command that measures the largest of them alone
    bytes: float | None = None  # read and written at least, where its work is FLOP
    dtype: str = ""  # float32, bfloat16 …: in which most of its FLOP are computed


# Which of a step's ceilings bounds products of a type.
PEAKS = {"float32": "flops", "float64": "flops_f64", "bfloat16": "flops_bf16"}


def large(types: Mapping[str, float]) -> dict[str, float]:
    """Return the types that at least a hundredth of the FLOP is computed in."""
    return {name: flops for name, flops in types.items() if flops >= 0.01 * sum(types.values())}


def in_type(dtype: str) -> str:
    """Return the types of products in words; empty for the usual one."""
    return "" if dtype in ("", "float32") else f" in {dtype}"


@dataclass(frozen=True)
class Share:
    """The time and work of one kind of work."""

    name: str
    a: float
    low: float
    high: float
    work: float | None
    unit: str | None
    rate: float | None
    ceiling: str | None = None  # what bounds it on this machine
    percent: float | None = None  # of that
    least: float | None = None  # seconds that its work takes at the ceiling: a bound
    left: float | None = None  # seconds above that
    dtype: str = ""  # the types in which its FLOP are computed, that of most first

    @property
    def is_above(self) -> bool:
        """True if the printed share of the ceiling exceeds 100 %: then one of the two figures is wrong."""
        return round(100 * (self.percent or 0.0)) > 100


@dataclass(frozen=True)
class Module:
    """A node of the tree of modules, with all below it. `count`: alike siblings folded into it."""

    path: str
    depth: int
    count: int
    phases: dict[str, float]  # seconds of a step
    column: str  # the kind that takes most of it

    @property
    def name(self) -> str:
        """Last part of the path, all of it for an outermost module."""
        name = self.path if self.path.startswith("(") or self.depth == 0 else self.path.rpartition(".")[2]
        return f"{name} ×{self.count}" if self.count > 1 else name

    @property
    def total(self) -> float:
        """Seconds of a step."""
        return sum(self.phases.values())


OPERATING = "operating system"  # the cross-check of its share
AGREES = 0.1  # share of a row's seconds by which a step without it may be off
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
    """The fastest kernel of this suite for an operation's problem, by itself, operands out of cache."""

    row: str
    repeat: str
    variant: str
    seconds: float  # of one call
    took: float  # of one call in the step
    left: float  # seconds of a step that it would save


@dataclass(frozen=True)
class Breakdown:
    """One step as cells, which with the residual sum to it."""

    name: str  # of the program's file
    program: dict[str, Any]  # words, interpreter, framework, threads, heap, where a step ends
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
    faults: dict[str, float]  # page faults of a step by level, the heap that it starts with as `started`
    system: dict[str, float]  # seconds of plain steps in the operating system, by its own account, of each thread
    closure: dict[str, dict[str, float | None]]
    watched_system: dict[str, float] = field(default_factory=dict)  # the same of watched steps
    started: dict[str, float] = field(
        default_factory=dict
    )  # on the heap that it starts with: seconds, low, high, faults
    ceilings: dict[str, float] = field(default_factory=dict)  # FLOP/s of float32 and of other types, byte/s
    types: dict[str, float] = field(default_factory=dict)  # FLOP of a step by the type that they are computed in
    witnesses: tuple[Witness, ...] = ()
    fastest: tuple[Fastest, ...] = ()
    conditions: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    ended: str = ""
    busy: float | None = None  # share of the processor time it could use that others took; null: not known

    def share(self, name: str) -> float:
        """Return the share of a kind of work in the step."""
        return sum(kind.a for kind in self.kinds if kind.name == name) / self.step["a"]

    def peak(self, dtype: str) -> float | None:
        """Return the ceiling of products of a type in FLOP/s; float32 where no type is known."""
        return self.ceilings.get(PEAKS.get(dtype or "float32", ""))
