"""The record of an explanation why one framework's step takes longer, filled by `macro explain`.

A run file has it as the data of a note, so fields may be added, with a default, never renamed. Side is `a` or `b`.
Base units throughout: seconds, bytes, FLOP."""

from __future__ import annotations

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
