"""Calls that the check makes of a kernel: their inputs, and the places of their operands."""

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
CALLS = 8  # of a kernel whose answers are cheap to judge
EASY_FLOPS, EASY_BYTES = 1.5e7, 1 << 20  # up to here they are
DEAR_FLOPS = 10e9  # from here on a launch more costs as much as all the rest
LEAST_CHANGE, MOST_CHANGE = 4.0, 256.0  # by how much an element changes; a long sum would hide a small change
PER_ELEMENT = 2.0**-18  # … of so many elements


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of a check."""

    probe: str
    changed: bool = False  # one element of each input differs from the probe's call before
    place: Place = "guarded"  # of the operands
    judged: bool = True

    @property
    def before(self) -> bool:
        """True for a call whose changed element is restored after it."""
        return self.changed and not self.judged


def turns(problem: Problem, variant: Variant[Any], data: str, fenced: bool) -> list[Turn]:
    """Return the calls of one check.

    A problem up to EASY_FLOPS and EASY_BYTES has CALLS of them, each judged in full: every probe once, and the first
    one again and again, with one element of each input changed in between. A larger one has a call of its first probe
    with one element of each input changed, which is not judged, then that probe unchanged, judged, on the same
    operands, and the other probes: a kernel that caches earlier inputs fails in either case. From DEAR_FLOPS on there
    is no call without judgment: there only verified samples change single elements."""
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
    """Return the probes of a problem, with those of the timed data, graded rows, and NaN or infinities.

    Kernels with a growing error, which mix rows, have neither graded rows nor special values. A graded probe replaces a
    sparse one, whose terms it contains. Problems that are not easy get no further graded or special probe."""
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
    """Place the first three calls and the last on the same operands, the others at a fence by turns."""
    places: Iterator[Place] = itertools.cycle(("end", "start") if fenced else ("guarded",))
    middle = [Turn(x.probe, x.changed, place) for x, place in zip(calls[3:-1], places, strict=False)]
    return [*calls[:3], *middle, calls[-1]]


@dataclass
class Drawn:
    """Probes of a problem, drawn on demand and cached for rivals whose references are slow."""

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
    """Return one element of each input with a new value, or a row of values drawn by the problem."""
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
    """Return a value of few bits, which every type holds, with the opposite sign, for rectifiers."""
    import numpy as np

    size = min(max(LEAST_CHANGE, array.size * PER_ELEMENT), MOST_CHANGE)
    power = 2.0 ** np.floor(np.log2(size)) * int(rng.integers(4, 8)) / 4 * float(spread(operand.dtype))
    new = power + array[at] if operand.nonnegative else -np.copysign(power, array[at])
    if operand.dtype in LEAST:
        return float(np.rint(new))
    return rounded(np.array([new], np.float32), operand.dtype)[0]


def moved(x: dict[str, Array], moves: dict[str, Any]) -> dict[str, Array]:
    """Return inputs with those elements replaced; changed arrays are copies."""
    changed = dict(x)
    for name, (at, value) in moves.items():
        changed[name] = x[name].copy()
        changed[name][at] = value
    return changed


@contextmanager
def swapped(x: dict[str, Array], moves: dict[str, Any]) -> Iterator[None]:
    """Replace those elements in place for the duration of the context."""
    held = {name: x[name][at].copy() for name, (at, _) in moves.items()}
    for name, (at, value) in moves.items():
        x[name][at] = value
    yield
    for name, (at, _) in moves.items():
        x[name][at] = held[name]
