"""Problem: an operation at one size; its fields are axes, its methods give operands, answer and cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

from kernels import bounds
from kernels.dtypes import BYTES, DATA, STORED, decode, drawn, rounded
from kernels.dtypes import Array as Array  # part of this interface
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.places import Places, every

Arrays: TypeAlias = "Mapping[str, Array]"


@dataclass(frozen=True, slots=True)
class Operand:
    """A row-major array that a problem reads or writes."""

    name: str
    shape: tuple[int, ...]  # elements
    role: Literal["in", "out", "inout"]
    dtype: str = "fp32"
    pad: int = 0  # elements of padding after each row
    below: int = 0  # exclusive upper bound of indices and lengths; 0 for other operands
    nonnegative: bool = False  # drawn without a sign, such as second moments and other sums of squares
    drawn_by_index: bool = False  # values come from the problem's method `indices`, as one-hot rows do

    @property
    def ld(self) -> int:
        return self.shape[-1] + self.pad

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next along each axis."""
        size = BYTES[self.dtype]
        strides, step = [size], self.ld * size
        for extent in reversed(self.shape[:-1]):
            strides.insert(0, step)
            step *= extent
        return tuple(strides)

    @property
    def nbytes(self) -> int:
        """Bytes from the first row to the end of the last, padding included."""
        rows = 1
        for extent in self.shape[:-1]:
            rows *= extent
        return rows * self.ld * BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point operations that a kernel executes, and bytes that it must move."""

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Elementwise |error| and bound of the output `operand` in one test; the judge may overwrite `error`."""

    operand: str
    test: str
    error: Array
    bound: Array


def axis(
    help: str,  # noqa: A002  argparse's own word
    default: Any = dataclasses.MISSING,
    *,
    low: float | None = None,
    choices: tuple[str, ...] = (),
    shown: Literal["", "word", "bytes"] = "",
) -> Any:
    """Return a dataclass field that is an axis: an option, a part of the problem's name and a column.

    `shown`: how a report prints the axis: "" as name and value, "word" as the value alone, "bytes" with a binary
    prefix."""
    metadata = {"help": help, "low": low, "choices": choices, "shown": shown}
    return dataclasses.field(default=default, metadata=metadata)


DIRECTIONS = ("forward", "dgrad", "wgrad", "update", "step")  # the same words in all operations (docs/glossary.md)


def direction(help: str, default: str, *names: str, others: tuple[str, ...] = ()) -> Any:  # noqa: A002  as above
    """Return an axis whose choices are `default`, the directions `names` and the operation's `others`."""
    assert {default, *names} <= {*DIRECTIONS, *others}, f"{default}, {names}: directions are {DIRECTIONS}"
    choices = tuple(dict.fromkeys((default, *names, *others)))
    return axis(help, default, choices=choices)


def plain(value: object) -> str:
    """Return a field's value as printed in a problem's name: exact, a whole float without `.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


GRADED, SPECIAL = "graded", "special"  # probes beside an operation's `probes`; see the properties of these names
NUMBERS = (1 << 20) + 61  # drawn for one array; a longer array repeats them with this odd period


def _random(rng: np.random.Generator, x: Operand, data: str) -> Array:
    some = decode(drawn(rng, min(math.prod(x.shape), NUMBERS), x.dtype, data))
    return np.resize(np.abs(some, out=some) if x.nonnegative else some, x.shape)


def _grade(filled: dict[str, Array], graded: Sequence[tuple[Operand, int]], rng: np.random.Generator) -> None:
    """Multiply each slice of an operand along its graded axis by a random factor of 10^±6, in place."""
    for x, along in graded:
        sizes = [extent if axis == along else 1 for axis, extent in enumerate(x.shape)]
        powers = 10 ** rng.uniform(-bounds.GRADES, bounds.GRADES, sizes)
        filled[x.name] = rounded(filled[x.name] * powers.astype(np.float32), x.dtype)


class Inputs(dict[str, "Array"]):
    """Input arrays of one probe by name, shared by all kernels checked on them.

    `known` caches results that are derived from the inputs, such as the reference and its bound."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.known: dict[Any, Any] = {}


def once(x: Arrays, what: Any, find: Callable[[], Any]) -> Any:
    """Return `find()`, cached under the key `what` if `x` is an Inputs, which kernels share."""
    if not isinstance(x, Inputs):
        return find()
    if what not in x.known:
        x.known[what] = find()
    return x.known[what]


@dataclass(frozen=True)
class Problem:
    """Base of all operations; subclasses are frozen dataclasses whose fields are made by `axis`."""

    op: ClassVar[str]
    probes: ClassVar[tuple[str, ...]] = ("dense",)
    by_executed: ClassVar[bool] = False  # whether shares of a ceiling count executed work, which some algorithms reduce
    called: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})  # axes by other words that a user may type
    within: ClassVar[bool] = False  # data stay in a multiprocessor or its caches: no bound by memory bandwidth

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, rule = getattr(self, field.name), field.metadata
            option = "--" + field.name.replace("_", "-")
            if rule["choices"] and value not in rule["choices"]:
                raise UsageError(f"{option} {value}: choose from {', '.join(rule['choices'])}")
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{option} {value}: must be a finite number")
            if rule["low"] is not None and not value >= rule["low"]:
                raise UsageError(f"{option} {value}: must be {rule['low']} or more")

    @property
    def name(self) -> str:
        """`op/field:value/…`: required fields always, the others if they differ from their default."""
        parts = [self.op]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING or value != field.default:
                parts.append(f"{field.name}:{plain(value)}")
        return "/".join(parts)

    @property
    def descriptor(self) -> str | None:
        """The problem in the notation of another benchmark of the operation, or None if there is none."""
        return None

    @property
    def shown(self) -> dict[str, str]:
        """Print form ("word" or "bytes") by axis, of axes that are not printed as name and value."""
        return {x.name: x.metadata["shown"] for x in dataclasses.fields(self) if x.metadata["shown"]}

    @property
    def drawn(self) -> Problem:
        """The problem whose inputs and truth this problem shares: itself, or the fp32 problem for TF32."""
        return self

    @property
    def precision(self) -> str:
        """Precision of the arithmetic that the problem requests: an element type, or TF32."""
        return "fp32"

    @property
    def on_host(self) -> bool:
        """True if the time is measured by the host's clock instead of the device's."""
        return False

    @property
    def summed(self) -> int:
        """Terms of the longest sum in an output."""
        return 1

    @property
    def graded(self) -> Mapping[str, int]:
        """Inputs whose slices the graded probe scales by 10^±6, with the axis along which slices are scaled.

        A kernel in fixed-point arithmetic loses the small slices. Empty if an element of the answer combines several
        slices."""
        return {}

    @property
    def special(self) -> Mapping[str, tuple[float, ...]]:
        """Non-finite values for the special probe, by input; none where libraries disagree on the answer."""
        return {}

    @property
    def flops(self) -> float:
        """Nominal floating-point operations; by default none."""
        return 0.0

    @property
    def bytes(self) -> float:
        """Nominal bytes: every input read once, every output written once; by default the footprint."""
        return float(self.footprint)

    def operands(self) -> tuple[Operand, ...]:
        """Return the operands in the order in which a kernel takes them: inputs, then outputs."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Operands that a kernel writes, in order."""
        return tuple(x for x in self.operands() if x.role != "in")

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Return fresh host arrays for every operand that is read.

        Values are normal random, unless the probe names other data or `indices` draws them."""
        read = [x for x in self.operands() if x.role != "out"]
        data = probe if probe in DATA else "normal"
        filled = {x.name: self.indices(x, rng) if x.below or x.drawn_by_index else _random(rng, x, data) for x in read}
        if probe == GRADED:
            _grade(filled, [(x, self.graded[x.name]) for x in read if x.name in self.graded], rng)
        return filled

    def specialized(self, x: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        """Return inputs with the special probe's values at random places."""
        inputs = dict(x)
        for name, values in self.special.items():
            inputs[name] = x[name].copy()
            places = rng.choice(x[name].size, min(len(values), x[name].size), replace=False)
            inputs[name].flat[places] = values[: len(places)]
        return inputs

    def indices(self, x: Operand, rng: np.random.Generator) -> Array:
        """Return the values of an index operand, or of an operand `drawn_by_index`, for checks and timing.

        The default is uniform over the allowed range; the first and the last value, where kernels may be wrong, are
        always included."""
        drawn = rng.integers(x.below, size=x.shape, dtype=STORED[x.dtype])
        if drawn.size > 2:
            drawn.flat[rng.choice(drawn.size, 2, replace=False)] = 0, x.below - 1
        return drawn

    def reference(self, x: Arrays) -> dict[str, Array]:
        """Return the right answer of every output in float64, by name; the caller may overwrite the arrays."""
        raise NotImplementedError

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Return the largest allowed |error| of each output element; `u`: unit roundoff times error growth.

        The default is 0, because numbers that are moved or counted are exact."""
        return {name: np.zeros_like(array) for name, array in want.items()}

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        """Compare the answer `got` with the truth, output by output.

        An operation with an expensive reference overrides this."""
        if probe == SPECIAL:
            with np.errstate(all="ignore"):
                return self._compare_special(x, got, u)
        want = once(x, "reference", lambda: self.reference(x))
        bound = once(x, ("bound", u), lambda: self.bound(x, want, u))
        if (slack := bounds.wider(probe, self.summed)) > 1:
            bound = {name: slack * array for name, array in bound.items()}
        evidence = []
        for name in want:
            # In place where no other rival needs it: fresh pages cost more than the arithmetic.
            error = np.subtract(got[name], want[name], out=None if isinstance(x, Inputs) else want[name])
            evidence.append(Evidence(name, probe, np.abs(error, out=error), bound[name]))
        return evidence

    def _compare_special(self, x: Arrays, got: Arrays, u: float) -> list[Evidence]:
        """Compare answers that must be NaN or infinite, with the right sign, exactly where the truth is."""
        want = self.reference(x)
        bound = self.bound(x, want, u)
        judged = {name: bounds.judged(got[name], want[name], abs(got[name] - want[name]), bound[name]) for name in want}
        return [Evidence(name, SPECIAL, *both) for name, both in judged.items()]

    def digests(self) -> dict[str, str]:
        """Return the data's digest by field, of fields that name data (a pattern, a file); by default empty."""
        return {}

    def excerpt_rows(self, some: Array, **fields: Any) -> Excerpt:
        """Return the excerpt of the rows `some` of each operand; `fields`: the excerpt's fields that differ."""
        where = {x.name: (some, *every(x.shape[1:])) for x in self.operands()}
        return Excerpt(dataclasses.replace(self, **fields), where)

    def excerpt_elements(self, some: Array, **fields: Any) -> Excerpt:
        """Return the excerpt of the elements `some` of one-row operands; `fields` as in `excerpt_rows`."""
        row = (*every((1,)), some)
        return Excerpt(dataclasses.replace(self, **fields), {x.name: row for x in self.operands()})

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Return the part of a timed launch to check: all, or a random part that is a problem itself.

        An operation whose float64 reference takes more than two milliseconds overrides this."""
        return Excerpt(self, {x.name: every(x.shape) for x in self.operands()})

    @property
    def footprint(self) -> int:
        """Bytes of all operands, padding included."""
        return sum(x.nbytes for x in self.operands())

    @property
    def size_axes(self) -> tuple[str, ...]:
        """Integer axes along which the footprint grows."""
        return tuple(field.name for field in dataclasses.fields(self) if self._grows(field.name))

    def _grows(self, name: str) -> bool:
        """Return whether the footprint grows with an axis, tried at twice or, if refused, half its value."""
        value, room = getattr(self, name), self.footprint
        if type(value) is not int:
            return False
        for other in (2 * value, value // 2):
            try:
                there = dataclasses.replace(self, **{name: other}).footprint
            except UsageError:
                continue
            if there != room:
                return (there > room) == (other > value)
        return False


@dataclass(frozen=True)
class Excerpt:
    """A part of a problem that is itself a `problem` of the same operation."""

    problem: Problem
    places: Mapping[str, Places]  # of each operand of the full problem: the places along each axis, ascending
    given: Arrays = dataclasses.field(default_factory=dict)  # index inputs, renumbered for the part
