"""Witnesses: launches of the measurement itself whose answers are compared with float64, on the data and at the place
at which they are timed. A kernel that is right only while it is checked loses its time by them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from kernels.dtypes import BYTES, STORED, decode, encode
from kernels.errors import WrongResult
from kernels.problem import Inputs, once
from micro.worker.evidence import Found, how_far
from micro.worker.visits import Watched

if TYPE_CHECKING:
    import numpy as np

    from kernels.devices.base import Device
    from kernels.places import Places
    from kernels.problem import Array, Evidence, Excerpt, Operand
    from micro.worker.timed import Timed


Box: TypeAlias = "tuple[slice, ...]"
MANY = 8  # pieces of a processor's memory, from which on they are gathered at once
FROM_MEMORY = [1, 0, 2]  # columns of moves, the other way
TYPICAL = 2.0**-64, 2.0**10  # sizes of what is read and written, between which no rounding of it is out of the ordinary


@dataclass(frozen=True)
class Change:
    """One element of an input: its operand, its place along the axes of the whole, what it was and what it is while the
    launch runs, as they lie in memory."""

    operand: str
    place: tuple[int, ...]
    before: Array
    after: Array


@dataclass(frozen=True)
class Witness:
    """Of launch `launch` of visit `visit`: part of its operands. `views`: its operands by name; `x`: what is read, as
    float32; `fill`: what is written to the outputs before, in their `boxes`; `kept`: what they hold behind, as in
    memory; `unchanged`: the right answer, had the changed element not been changed; `read`: what lay there to be read
    when it was drawn; `as_left`: outputs are as the launch before left them, and `fill` gets of those that are read too
    what that is."""

    device: Device
    entry: Timed
    visit: int
    launch: int
    excerpt: Excerpt
    views: Mapping[str, Any]
    x: Inputs
    fill: Mapping[str, Array]
    boxes: Mapping[str, Box]
    kept: Mapping[str, Array]
    change: Change | None
    unchanged: Mapping[str, Array]
    read: Mapping[str, Array]
    as_left: bool

    @property
    def once(self) -> bool:
        """Whether a second launch finds in an output what the first one left."""
        return any(x.role == "inout" for x in self.excerpt.problem.operands())

    def write(self) -> None:
        """Before launches that are made step by step: what its outputs hold, and the element that is another one."""
        for operand in self.excerpt.problem.outputs:
            if self.stays(operand):
                left = taken(self.device, self.views[operand.name], self.excerpt.places[operand.name])
                self.fill[operand.name][...] = encode(left, operand.dtype)
                continue
            box = self.boxes[operand.name]
            fill = decode(self.fill[operand.name]).reshape(operand.shape)[box]
            places = tuple(along[part] for along, part in zip(self.excerpt.places[operand.name], box, strict=True))
            for inside, outside in _pieces(places):
                self.device.put(self.views[operand.name][outside], fill[inside])
        self._put_element(back=False)

    def stays(self, operand: Operand) -> bool:
        """Whether an output is read as the launch before left it."""
        return self.as_left and operand.role == "inout"

    def keep(self) -> None:
        """Behind them: what they left, and the element as it was."""
        for operand in self.excerpt.problem.outputs:
            answer = taken(self.device, self.views[operand.name], self.excerpt.places[operand.name])
            self.kept[operand.name][...] = encode(answer, operand.dtype)
        self._put_element(back=True)

    def _put_element(self, back: bool) -> None:
        if change := self.change:
            where = tuple(slice(i, i + 1) for i in change.place)
            value = decode(change.before if back else change.after)
            self.device.put(self.views[change.operand][where], value.reshape((1,) * len(where)))

    @property
    def overwritten(self) -> bool:
        """Whether its inputs are others by now, or were no numbers when it was drawn: no fault of its answer."""
        import numpy as np

        now = {name: taken(self.device, self.views[name], self.excerpt.places[name]) for name in self.read}
        return any(not np.isfinite(x).all() or not np.array_equal(x, now[name]) for name, x in self.read.items())

    def judge(self) -> None:
        """Raises WrongResult where an output is not what it has to be. What launch after launch made large or small is
        not judged: an operation need not be precise there."""
        problem = self.excerpt.problem
        left = {o.name: decode(self.fill[o.name]).reshape(o.shape) for o in problem.outputs if self.stays(o)}
        if not all(map(_typical, left.values())):
            return
        x = self.x | left if left else self.x
        probe = self.entry.data if self.entry.data != "normal" else "dense"
        got = {x.name: decode(self.kept[x.name]).reshape(x.shape) for x in problem.outputs}
        variant = self.entry.variant
        for evidence in variant.judged(problem).compare(x, got, variant.u(problem), probe):
            if not (evidence.error <= evidence.bound).all():  # NaN is not
                error = WrongResult(self._reason(got[evidence.operand], evidence))
                error.evidence = Found("timed", dict(x), got, evidence)
                raise error

    def _reason(self, got: Array, evidence: Evidence) -> str:

        name = evidence.operand
        where = f" of {name}" if len(self.excerpt.problem.outputs) > 1 else ""
        before = decode(self.fill[name]).reshape(got.shape)
        bad = ~(evidence.error <= evidence.bound)
        if bad.shape == got.shape and _untouched(got, before, bad, self.boxes[name]):
            how = "are left as they were"
        elif self.change and name in self.unchanged and _near(got, self.unchanged[name], evidence):
            how = f"answer what {self.change.operand} was before an element of it changed"
        else:
            how = f"are {how_far(evidence.error[bad], evidence.bound[bad])}"
        return f"right when it was checked, wrong while it was timed: {bad.sum()} of {bad.size} values{where} {how}"


def _untouched(got: Array, before: Array, bad: Array, box: Box) -> bool:
    """Whether what is wrong is what was written before, where something was."""
    import numpy as np

    written = np.zeros(got.shape, bool)
    written[box] = True
    return bool((bad & written).any() and (got == before)[bad & written].all())


def _typical(x: Array) -> bool:
    """Whether each is a number of a usual size, or nothing."""
    import numpy as np

    size = np.abs(x)
    return bool(((size == 0) | ((size >= TYPICAL[0]) & (size <= TYPICAL[1]))).all())


def _near(got: Array, want: Array, evidence: Evidence) -> bool:
    import numpy as np

    return got.shape == evidence.bound.shape and bool((np.abs(got - want) <= evidence.bound).all())


def prepared(
    device: Device, rng: np.random.Generator, entry: Timed, views: Mapping[str, Any], at: tuple[int, int], change: bool
) -> Witness:
    """A witness of launch `at[1]` of visit `at[0]`. `change`: an element of an input is another one while it runs."""
    import numpy as np

    excerpt = entry.problem.excerpt(rng)
    problem, read = excerpt.problem, [x for x in entry.problem.operands() if x.role == "in"]
    x = {o.name: taken(device, views[o.name], excerpt.places[o.name]) for o in read if o.name not in excerpt.given}
    there = dict(x)
    x |= {o.name: x[o.name].astype(STORED[o.dtype]) for o in read if o.below and o.name in x}
    x |= excerpt.given
    drawn = problem.fill(rng) if any(o.role == "inout" for o in problem.operands()) else {}
    x |= {o.name: drawn[o.name] for o in problem.operands() if o.role == "inout"}
    unchanged = problem.reference(x)
    changed = _change(rng, entry, excerpt, x) if change else None
    inputs = Inputs(x)
    if changed is None and not drawn:
        once(inputs, "reference", lambda: unchanged)
    fill = {o.name: encode(_plausible(rng, o, x, unchanged), o.dtype) for o in problem.outputs}
    for o in problem.operands():
        if o.role == "inout":  # as it lies in memory
            inputs[o.name] = decode(fill[o.name])
    as_left = changed is not None and bool(rng.integers(2))
    boxes = {o.name: _nothing(o) if as_left else _box(rng, o) for o in problem.outputs}
    kept = {o.name: np.empty(o.shape, STORED[o.dtype]) for o in problem.outputs}
    return Witness(device, entry, *at, excerpt, views, inputs, fill, boxes, kept, changed, unchanged, there, as_left)


def _plausible(rng: np.random.Generator, operand: Operand, x: Mapping[str, Array], want: Mapping[str, Array]) -> Array:
    """What may stand in an output before: of one that is also read what the problem draws for it, else right values at
    wrong places; where chance puts a right one at its place, another."""
    import numpy as np

    if operand.role == "inout":
        return x[operand.name]
    right = want[operand.name].reshape(operand.shape)
    values = rng.permutation(right.ravel()).reshape(right.shape)
    spread = float(np.sqrt(np.mean(np.square(right)))) or 1.0
    other = np.where(values == right, spread * rng.standard_normal(right.shape), values)
    return np.asarray(other, np.float32)


def _change(rng: np.random.Generator, entry: Timed, excerpt: Excerpt, x: dict[str, Array]) -> Change | None:
    """Another element's value in place of one's; none where all inputs are kept, are the problem's
    own or are all alike."""
    import numpy as np

    operands = [
        o
        for o in entry.problem.operands()
        if o.role == "in"
        and not (o.below or o.drawn_by_index)
        and o.name not in entry.variant.constant
        and o.name not in excerpt.given
    ]
    if not operands:
        return None
    operand = operands[int(rng.integers(len(operands)))]
    values = x[operand.name]
    first, second = rng.integers(values.size, size=2)
    at = tuple(int(i) for i in np.unravel_index(first, values.shape))
    before, after = values.flat[first], values.flat[second]
    if before == after:
        return None
    x[operand.name] = values = values.copy()
    values[at] = after
    place = tuple(int(along[i]) for along, i in zip(excerpt.places[operand.name], at, strict=True))
    as_stored = [encode(np.array([value], np.float32), operand.dtype) for value in (before, after)]
    return Change(operand.name, place, *as_stored)


def taken(device: Device, view: Any, places: Places) -> Array:
    """The outer product of the places along each axis, as float32 on the host."""
    import numpy as np

    pieces = list(_pieces(places))
    if device.kind.compiled and len(pieces) > MANY:
        return np.array(device.get(view[np.ix_(*places)]))
    values: Array | None = None
    for inside, outside in pieces:
        piece = device.get(view[outside])
        values = np.empty(tuple(map(len, places)), piece.dtype) if values is None else values
        values[inside] = piece
    assert values is not None
    return values


def _pieces(places: Places) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Boxes of neighboring places: where each lies in the excerpt, and in the whole."""
    return ((tuple(i for i, _ in box), tuple(o for _, o in box)) for box in itertools.product(*map(_runs, places)))


def _runs(along: Array) -> list[tuple[slice, slice]]:
    """Neighbors along one axis: where they lie in the excerpt, and in the whole."""
    import numpy as np

    ends = [0, *(np.flatnonzero(np.diff(along) != 1) + 1).tolist(), len(along)]
    return [
        (slice(first, last), slice(int(along[first]), int(along[last - 1]) + 1))
        for first, last in itertools.pairwise(ends)
        if last > first
    ]


def watched(witnesses: Sequence[Witness]) -> list[Watched]:
    """For the compiled loop, in its order."""
    return [_watched(x) for x in sorted(witnesses, key=lambda x: (x.visit, x.launch))]


def _watched(witness: Witness) -> Watched:
    import numpy as np

    before, behind = [], []
    for operand in witness.excerpt.problem.outputs:
        everything = (slice(None),) * len(operand.shape)
        if witness.stays(operand):
            before.append(_moves(operand, witness, witness.fill[operand.name], everything)[:, FROM_MEMORY])
        else:
            before.append(_moves(operand, witness, witness.fill[operand.name], witness.boxes[operand.name]))
        behind.append(_moves(operand, witness, witness.kept[operand.name], everything)[:, FROM_MEMORY])
    if change := witness.change:
        operand = next(x for x in witness.entry.problem.operands() if x.name == change.operand)
        offset = sum(i * step for i, step in zip(change.place, operand.strides, strict=True))
        address, nbytes = witness.views[change.operand].ctypes.data + offset, BYTES[operand.dtype]
        before.append(np.array([[change.after.ctypes.data, address, nbytes]]))
        behind.append(np.array([[change.before.ctypes.data, address, nbytes]]))
    tables = (np.ascontiguousarray(np.concatenate(x), np.int64) for x in (before, behind))
    return Watched(witness.visit, witness.launch, *tables)


def _moves(operand: Operand, witness: Witness, values: Array, box: Box) -> Array:
    """From compact values to their places in memory, those of a box of them: addresses from and to and bytes of each
    run, [n, 3]."""
    import numpy as np

    full = next(x for x in witness.entry.problem.operands() if x.name == operand.name)
    there = np.zeros((1,) * len(operand.shape), np.int64)
    for axis, (along, step) in enumerate(zip(witness.excerpt.places[operand.name], full.strides, strict=True)):
        there = there + (along * step).reshape((-1,) + (1,) * (len(operand.shape) - 1 - axis))
    size = BYTES[operand.dtype]
    here = np.arange(values.size).reshape(operand.shape) * size
    sources, targets = here[box].ravel(), there[box].ravel()
    if not sources.size:
        return np.zeros((0, 3), np.int64)
    first = np.flatnonzero(np.r_[True, (np.diff(sources) != size) | (np.diff(targets) != size)])
    lengths = np.diff(first, append=len(targets)) * size
    start = witness.views[operand.name].ctypes.data
    return np.stack([values.ctypes.data + sources[first], start + targets[first], lengths], axis=1)


def _nothing(operand: Operand) -> Box:
    """Of an output that keeps what the launch before left in it: beside a changed input, so that a kernel that looks
    whether its whole last answer still stands sees that it does."""
    return (slice(0),) * len(operand.shape)


def _box(rng: np.random.Generator, operand: Operand) -> Box:
    """What is written of an output before: now all of it, now some of its rows or columns, so that a kernel that looks
    whether its last answer still stands does not see each time that it does not."""
    boxes = [slice(None)] * len(operand.shape)
    longest = max(range(len(boxes)), key=lambda axis: operand.shape[axis])
    extent = operand.shape[longest]
    if operand.role == "out" and extent > 1 and rng.integers(2):
        first = int(rng.integers(extent))
        boxes[longest] = slice(first, first + max(1, int(rng.integers(extent - first + 1))))
    return tuple(boxes)
