"""Calls of a kernel in its check: the inputs, and the placement of the operands, of each call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kernels.dtypes import LEAST, rounded, spread
from kernels.problem import GRADED, SPECIAL, Inputs

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Operand, Problem
    from kernels.variant import Variant

Place: TypeAlias = Literal["guarded", "end", "start"]
CALLS = 8  # least calls of a kernel on an easy problem, whose answers are cheap to judge
EASY_FLOPS, EASY_BYTES = 1.5e7, 1 << 20  # most FLOP and bytes of an easy problem
DEAR_FLOPS = 10e9  # FLOP from which on another launch costs as much as the rest of the check
LEAST_CHANGE, MOST_CHANGE = 4.0, 256.0  # by how much an element changes; a long sum would hide a small change
PER_ELEMENT = 2.0**-18  # least change per element of the input


@dataclass(frozen=True, slots=True)
class Turn:
    """A call of a check: its probe, the change of its inputs, and the placement of its operands."""

    probe: str
    changed: bool = False  # one element of each input differs from the probe's previous call
    place: Place = "guarded"  # of the operands
    judged: bool = True

    @property
    def before(self) -> bool:
        """True for a call after which the changed elements are restored."""
        return self.changed and not self.judged


def turns(problem: Problem, variant: Variant[Any], data: str, fenced: bool) -> list[Turn]:
    """Return the calls of one check.

    An easy problem (up to EASY_FLOPS and EASY_BYTES) gets at least CALLS calls, all judged: each probe once, and the
    first probe again and again, with one element of each input changed each time. A larger problem gets a call of its
    first probe with one element of each input changed, which is not judged, then judged calls of that probe unchanged,
    on the same operands, and of the other probes. A kernel that caches earlier inputs fails either way. From DEAR_FLOPS
    on no call changes an element: there only verified samples do."""
    first, *others = asked(problem, variant, data)
    if problem.flops <= EASY_FLOPS and problem.footprint <= EASY_BYTES:
        again = Turn(first, changed=True)
        calls = [Turn(first), again, again, *map(Turn, others)]
        calls += [again] * max(1, CALLS - len(calls))
        return _placed(calls, fenced)
    reads = any(x.role == "in" for x in problem.operands())
    before = [Turn(first, changed=True, judged=False)] if reads and problem.flops < DEAR_FLOPS else []
    if not before and not others:
        before = [Turn(first, judged=False)]  # one call alone would let an answer pass that was kept from earlier
    edge = [Turn(first, place="end", judged=False)] if fenced and not others else []
    rest = [Turn(probe, place="end" if fenced else "guarded") for probe in others]
    return [*before, Turn(first), *rest, *edge]


def asked(problem: Problem, variant: Variant[Any], data: str) -> list[str]:
    """Return the probes of a problem, and probes of the timed data, graded rows, and NaN or infinities.

    Kernels with a growing error, which mix rows, get neither graded rows nor special values. A graded probe replaces a
    sparse probe, whose terms it contains. Problems that are not easy get no additional graded or special probe."""
    probes, apart = list(problem.probes), variant.growth == 1
    timed = [data] if data != "normal" else []
    graded = apart and bool(problem.graded)
    if graded and "sparse" in probes:
        probes[probes.index("sparse")] = GRADED
    if problem.flops > EASY_FLOPS or problem.footprint > EASY_BYTES:
        return [*probes, *timed]
    alone = [GRADED] if graded and GRADED not in probes else []
    return [*probes, *alone, *timed, *([SPECIAL] if apart and problem.special else [])]


def _placed(calls: Sequence[Turn], fenced: bool) -> list[Turn]:
    """Place the first three calls and the last between guards, the others at either fence by turns."""
    places: Iterator[Place] = itertools.cycle(("end", "start") if fenced else ("guarded",))
    middle = [Turn(x.probe, x.changed, place) for x, place in zip(calls[3:-1], places, strict=False)]
    return [*calls[:3], *middle, calls[-1]]


@dataclass
class Drawn:
    """Inputs of a problem by probe, drawn on demand and cached for its rivals."""

    problem: Problem
    seed: int
    constant: tuple[str, ...] = ()  # inputs alike in all probes, for rivals that cache them
    probes: dict[str, Inputs] = field(default_factory=dict)

    def __call__(self, probe: str) -> Inputs:
        import numpy as np

        if probe not in self.probes:
            rng = np.random.default_rng((self.seed, len(self.probes)))
            filled = self.problem.fill(rng, probe)
            first = next(iter(self.probes.values()), filled)
            self.probes[probe] = Inputs(filled | {name: first[name] for name in self.constant})
        return self.probes[probe]


def another(problem: Problem, x: dict[str, Array], constant: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    """Draw a change of each input: (index, value) of an element, or of a row drawn by the problem."""
    moves: dict[str, Any] = {}
    for operand in problem.operands():
        if operand.role == "out" or operand.name in constant:
            continue
        at = tuple(int(rng.integers(extent)) for extent in operand.shape)
        if operand.below or operand.drawn_by_index:
            moves[operand.name] = at[:1], problem.indices(operand, rng)[at[0]]
        else:
            moves[operand.name] = at, _value(operand, x[operand.name], at, rng)
    return moves


def _value(operand: Operand, array: Array, at: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return a new value of few bits, exact in every type; sign reversed, so that ReLU shows it."""
    import numpy as np

    size = min(max(LEAST_CHANGE, array.size * PER_ELEMENT), MOST_CHANGE)
    power = 2.0 ** np.floor(np.log2(size)) * int(rng.integers(4, 8)) / 4 * float(spread(operand.dtype))
    new = power + array[at] if operand.nonnegative else -np.copysign(power, array[at])
    if operand.dtype in LEAST:
        return float(np.rint(new))
    return rounded(np.array([new], np.float32), operand.dtype)[0]


def moved(x: dict[str, Array], moves: dict[str, Any]) -> dict[str, Array]:
    """Return the inputs with the changes `moves` applied to copies of the changed arrays."""
    changed = dict(x)
    for name, (at, value) in moves.items():
        changed[name] = x[name].copy()
        changed[name][at] = value
    return changed


@contextmanager
def swapped(x: dict[str, Array], moves: dict[str, Any]) -> Iterator[None]:
    """Apply the changes `moves` in place for the duration of the context."""
    held = {name: x[name][at].copy() for name, (at, _) in moves.items()}
    for name, (at, value) in moves.items():
        x[name][at] = value
    yield
    for name, (at, _) in moves.items():
        x[name][at] = held[name]
