"""Verified samples: timed launches whose answers are compared with float64, on the timed operands.

They catch kernels that are right only while they are checked."""

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
MANY = 8  # most pieces of host memory that are read one by one; more are gathered at once
FROM_MEMORY = [1, 0, 2]  # order of a copy's columns that swaps source and target
TYPICAL = 2.0**-64, 2.0**10  # least and largest magnitude of values that are judged, as they round normally


@dataclass(frozen=True)
class Change:
    """One element of an input that differs while a launch runs."""

    operand: str
    place: tuple[int, ...]  # index into the entire operand
    before: Array  # as stored
    after: Array  # as stored, while the launch runs


@dataclass(frozen=True)
class Witness:
    """A verified launch, and the excerpt of its operands that is compared; mappings are by operand."""

    device: Device
    entry: Timed
    visit: int  # index of its sample in the batch
    launch: int  # index in the sample
    excerpt: Excerpt
    views: Mapping[str, Any]  # of the entire operands
    x: Inputs  # inputs of the excerpt as float32
    fill: Mapping[str, Array]  # written to the outputs before the launch
    boxes: Mapping[str, Box]  # parts of the outputs that `fill` covers
    kept: Mapping[str, Array]  # outputs after the launch, as stored
    change: Change | None
    unchanged: Mapping[str, Array]  # the right answer to the inputs without the change
    read: Mapping[str, Array]  # inputs as read from memory when the sample was drawn
    as_left: bool  # keep the previous launch's outputs; `fill` receives the outputs that are also read

    @property
    def once(self) -> bool:
        """Report whether a second launch would read an output of the first one."""
        return any(x.role == "inout" for x in self.excerpt.problem.operands())

    def write(self) -> None:
        """Fill the outputs and change the element, before launches made step by step."""
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
        """Report whether the launch reads an `inout` operand as the previous launch left it."""
        return self.as_left and operand.role == "inout"

    def keep(self) -> None:
        """Save the outputs and restore the element, after the launches."""
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
        """Report whether inputs changed since the draw, or were not finite: maybe another case's fault."""
        import numpy as np

        now = {name: taken(self.device, self.views[name], self.excerpt.places[name]) for name in self.read}
        return any(not np.isfinite(x).all() or not np.array_equal(x, now[name]) for name, x in self.read.items())

    def judge(self) -> None:
        """Raise WrongResult for a wrong output.

        Not judged if earlier launches left very large or small values in an `inout`, where rounding is unusual."""
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
            how = "are unchanged"
        elif self.change and name in self.unchanged and _near(got, self.unchanged[name], evidence):
            how = f"ignore a changed element of {self.change.operand}"
        else:
            how = how_far(evidence.error[bad], evidence.bound[bad])
        return f"right when checked, wrong while timed: {bad.sum()} of {bad.size} values{where} {how}"


def _untouched(got: Array, before: Array, bad: Array, box: Box) -> bool:
    """Report whether the wrong values in the box are all as written before the launch."""
    import numpy as np

    written = np.zeros(got.shape, bool)
    written[box] = True
    return bool((bad & written).any() and (got == before)[bad & written].all())


def _typical(x: Array) -> bool:
    """Report whether every value is zero or of a magnitude within TYPICAL."""
    import numpy as np

    size = np.abs(x)
    return bool(((size == 0) | ((size >= TYPICAL[0]) & (size <= TYPICAL[1]))).all())


def _near(got: Array, want: Array, evidence: Evidence) -> bool:
    import numpy as np

    return got.shape == evidence.bound.shape and bool((np.abs(got - want) <= evidence.bound).all())


def prepared(
    device: Device, rng: np.random.Generator, entry: Timed, views: Mapping[str, Any], at: tuple[int, int], change: bool
) -> Witness:
    """Prepare the verification of launch `at[1]` of sample `at[0]`.

    `change`: an element of an input changes while the launch runs."""
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
    """Return plausible but wrong values to put into an output before a launch.

    An `inout` gets its values in `x`; other outputs the right values permuted, or random values if still right."""
    import numpy as np

    if operand.role == "inout":
        return x[operand.name]
    right = want[operand.name].reshape(operand.shape)
    values = rng.permutation(right.ravel()).reshape(right.shape)
    spread = float(np.sqrt(np.mean(np.square(right)))) or 1.0
    other = np.where(values == right, spread * rng.standard_normal(right.shape), values)
    return np.asarray(other, np.float32)


def _change(rng: np.random.Generator, entry: Timed, excerpt: Excerpt, x: dict[str, Array]) -> Change | None:
    """Replace an element of an input in `x` by another of its values; None if nothing is changed.

    Cached inputs and values drawn by the problem do not change, nor does an element that draws an equal value."""
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
    """Read the elements at all combinations of the places along each axis, as float32 on the host."""
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
    """Yield boxes of adjacent places, as slices of the excerpt and of the entire operand."""
    return ((tuple(i for i, _ in box), tuple(o for _, o in box)) for box in itertools.product(*map(_runs, places)))


def _runs(along: Array) -> list[tuple[slice, slice]]:
    """Return runs of adjacent places along one axis, as slices of the excerpt and of the entire axis."""
    import numpy as np

    ends = [0, *(np.flatnonzero(np.diff(along) != 1) + 1).tolist(), len(along)]
    return [
        (slice(first, last), slice(int(along[first]), int(along[last - 1]) + 1))
        for first, last in itertools.pairwise(ends)
        if last > first
    ]


def watched(witnesses: Sequence[Witness]) -> list[Watched]:
    """Convert verified launches to copies for the compiled loop, sorted by sample and launch."""
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
    """Return copies from the values of a box to the operand: source, target and bytes, [n, 3]."""
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
    """Return the empty box: no part of the output is overwritten before the launch.

    With a changed input this catches a kernel that skips its work if its last answer is still there."""
    return (slice(0),) * len(operand.shape)


def _box(rng: np.random.Generator, operand: Operand) -> Box:
    """Draw the part of an output to overwrite before a launch: all, or some rows or columns.

    The other part keeps the last answer, to catch a kernel that skips its work if it sees that answer."""
    boxes = [slice(None)] * len(operand.shape)
    longest = max(range(len(boxes)), key=lambda axis: operand.shape[axis])
    extent = operand.shape[longest]
    if operand.role == "out" and extent > 1 and rng.integers(2):
        first = int(rng.integers(extent))
        boxes[longest] = slice(first, first + max(1, int(rng.integers(extent - first + 1))))
    return tuple(boxes)
