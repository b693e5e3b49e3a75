"""Problem: one operation at one size; its fields are its axes, its methods operands, answer and cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from kernels import bounds
from kernels.dtypes import BYTES, DATA, STORED, decode, drawn, rounded
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.places import Places, every

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
Arrays: TypeAlias = "Mapping[str, Array]"


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a problem, row-major."""

    name: str
    shape: tuple[int, ...]  # elements
    role: Literal["in", "out", "inout"]
    dtype: str = "fp32"
    pad: int = 0  # elements between rows
    below: int = 0  # of indices and lengths, the first number that is too large; 0 of others
    nonnegative: bool = False  # of second moments and other sums of squares, drawn without a sign
    drawn_by_index: bool = False  # values come from the problem's `indices`, as one-hot rows do

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
    """One comparison of the output `operand` with the truth, elementwise; its judge may overwrite `error`."""

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

    `shown`: how a report prints the axis, by default name and value; of a `word` the value alone, of `bytes` with a
    binary prefix."""
    metadata = {"help": help, "low": low, "choices": choices, "shown": shown}
    return dataclasses.field(default=default, metadata=metadata)


DIRECTIONS = ("forward", "dgrad", "wgrad", "update", "step")  # the same words in all operations (docs/glossary.md)


def direction(help: str, default: str, *names: str, others: tuple[str, ...] = ()) -> Any:  # noqa: A002  as above
    """Return a problem's axis with these directions as choices, and an operation's `others` beside them."""
    assert {default, *names} <= {*DIRECTIONS, *others}, f"{default}, {names}: directions are {DIRECTIONS}"
    choices = tuple(dict.fromkeys((default, *names, *others)))
    return axis(help, default, choices=choices)


def plain(value: object) -> str:
    """Return a field's value as in a problem's name: exact, and a whole number without `.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


GRADED, SPECIAL = "graded", "special"  # probes beyond an operation's `probes`; see the properties of these names
NUMBERS = (1 << 20) + 61  # drawn for one array; a longer one repeats them at an odd period


def _random(rng: np.random.Generator, x: Operand, data: str) -> Array:
    some = decode(drawn(rng, min(math.prod(x.shape), NUMBERS), x.dtype, data))
    return np.resize(np.abs(some, out=some) if x.nonnegative else some, x.shape)


def _grade(filled: dict[str, Array], graded: Sequence[tuple[Operand, int]], rng: np.random.Generator) -> None:
    """Multiply rows, counted along an axis, by random powers of ten."""
    for x, along in graded:
        sizes = [extent if axis == along else 1 for axis, extent in enumerate(x.shape)]
        powers = 10 ** rng.uniform(-bounds.GRADES, bounds.GRADES, sizes)
        filled[x.name] = rounded(filled[x.name] * powers.astype(np.float32), x.dtype)


class Inputs(dict[str, "Array"]):
    """Arrays of one probe by name, shared by all kernels checked on them.

    `known` caches results derived from the right answer, such as the reference and its bound."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.known: dict[Any, Any] = {}


def once(x: Arrays, what: Any, find: Callable[[], Any]) -> Any:
    """Return `find()`, cached under the key `what` if the inputs are shared."""
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
    within: ClassVar[bool] = False  # data stay within a multiprocessor or its caches, so that no memory bounds it

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, rule = getattr(self, field.name), field.metadata
            option = "--" + field.name.replace("_", "-")
            if rule["choices"] and value not in rule["choices"]:
                raise UsageError(f"{option} {value}: there are {', '.join(rule['choices'])}")
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{option} {value}: take a finite number")
            if rule["low"] is not None and not value >= rule["low"]:
                raise UsageError(f"{option} {value}: take {rule['low']} or more")

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
        """The problem in the notation of another benchmark of the operation, or None."""
        return None

    @property
    def shown(self) -> dict[str, str]:
        """Print form, `word` or `bytes`, of the axes that a report does not print as name and value."""
        return {x.name: x.metadata["shown"] for x in dataclasses.fields(self) if x.metadata["shown"]}

    @property
    def drawn(self) -> Problem:
        """The problem with the same inputs and truth; itself, except for a precision that the inputs lack."""
        return self

    @property
    def precision(self) -> str:
        """Precision of the arithmetic that the problem requests: an element type, or TF32."""
        return "fp32"

    @property
    def on_host(self) -> bool:
        """True if the measured time is the caller's instead of the device's."""
        return False

    @property
    def summed(self) -> int:
        """Terms of the longest sum in an output."""
        return 1

    @property
    def graded(self) -> Mapping[str, int]:
        """Inputs whose rows differ in size by 10^±6 in one probe, with the axis along which rows are counted.

        A kernel that computes on a grid of fixed steps loses the small rows. Empty if an answer combines several
        rows."""
        return {}

    @property
    def special(self) -> Mapping[str, tuple[float, ...]]:
        """Non-finite values that one probe puts into inputs, by input, where libraries agree on the answer."""
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
        """Return inputs first, then outputs, the order in which a kernel takes them."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Operands that a kernel writes, in order."""
        return tuple(x for x in self.operands() if x.role != "in")

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Return fresh host arrays for every operand that is read.

        Values are normal random, unless the probe names other data or the operation draws them itself."""
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
        """Return the values of an input of indices, or of one that the operation draws, for checks and rounds.

        The default is uniform over the allowed range, with its first and last value included, where kernels may be
        wrong."""
        drawn = rng.integers(x.below, size=x.shape, dtype=STORED[x.dtype])
        if drawn.size > 2:
            drawn.flat[rng.choice(drawn.size, 2, replace=False)] = 0, x.below - 1
        return drawn

    def reference(self, x: Arrays) -> dict[str, Array]:
        """Return the right answer of every output in float64, by name; the caller may overwrite the arrays."""
        raise NotImplementedError

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Return the largest |error| of each output element allowed at unit roundoff u, growth included.

        The default is none: numbers that are moved or counted are right or wrong."""
        return {name: np.zeros_like(array) for name, array in want.items()}

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        """Compare the answer with the truth, output by output.

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
        """Compare answers that must contain NaN, or infinity of the right sign, exactly where the truth does."""
        want = self.reference(x)
        bound = self.bound(x, want, u)
        judged = {name: bounds.judged(got[name], want[name], abs(got[name] - want[name]), bound[name]) for name in want}
        return [Evidence(name, SPECIAL, *both) for name, both in judged.items()]

    def digests(self) -> dict[str, str]:
        """Return the digest of the data behind each field that names data, such as a pattern or a file."""
        return {}

    def excerpt_rows(self, some: NDArray[np.int64], **fields: Any) -> Excerpt:
        """Return the excerpt of `some` rows of each operand: a problem with these `fields`."""
        where = {x.name: (some, *every(x.shape[1:])) for x in self.operands()}
        return Excerpt(dataclasses.replace(self, **fields), where)

    def excerpt_elements(self, some: NDArray[np.int64], **fields: Any) -> Excerpt:
        """Return the excerpt of `some` elements of operands of one row, as `excerpt_rows`."""
        row = (*every((1,)), some)
        return Excerpt(dataclasses.replace(self, **fields), {x.name: row for x in self.operands()})

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Return what is checked of a timed launch: all of it, or a random part that is a problem itself.

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
        """Return whether the footprint grows with an axis: at twice its value or, if that is refused, at half."""
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
    given: Arrays = dataclasses.field(default_factory=dict)  # inputs that are numbered otherwise in the part
