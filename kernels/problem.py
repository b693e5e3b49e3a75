"""Problem: one operation at one size. Its fields are its axes; its methods its operands, right answer and cost."""

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
from kernels.places import every

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernels.places import Places

    Array: TypeAlias = NDArray[Any]
    Arrays: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Operand:
    """One array of a problem: row-major, `shape` in elements, `ld` elements from a row to the next. `below`: of labels,
    indices and lengths, inputs of whole numbers from 0 on, the first that is too large; 0 of every other.
    `nonnegative`: of second moments and other sums of squares, drawn without a sign, checked and timed.
    `drawn_by_index`: an input whose values the operation alone can draw (`indices`), as rows that are zero but for
    one 1."""

    name: str
    shape: tuple[int, ...]
    role: Literal["in", "out", "inout"]
    dtype: str = "fp32"
    pad: int = 0
    below: int = 0
    nonnegative: bool = False
    drawn_by_index: bool = False

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
        """Bytes from the first to the end of the last row, padding included."""
        rows = 1
        for extent in self.shape[:-1]:
            rows *= extent
        return rows * self.ld * BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel executes: floating-point operations, and bytes it must move."""

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """One comparison of the output `operand` with the truth: |error| and its bound, element by element. What
    judges it may write to `error`."""

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
    """A field that is an axis: becomes an option, a part of the name and a column. A report says its name and its
    value; of a `word` the value alone, of `bytes` with a binary prefix."""
    metadata = {"help": help, "low": low, "choices": choices, "shown": shown}
    return dataclasses.field(default=default, metadata=metadata)


def plain(value: object) -> str:
    """A field's value in a name: exact, and a whole number without its `.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


GRADED, SPECIAL = "graded", "special"  # probes beside those that an operation names: see its properties of these names
NUMBERS = (1 << 20) + 61  # drawn for one array; a longer one repeats them, at no round distance


def _random(rng: np.random.Generator, x: Operand, data: str) -> Array:
    import numpy as np

    some = decode(drawn(rng, min(math.prod(x.shape), NUMBERS), x.dtype, data))
    return np.resize(np.abs(some, out=some) if x.nonnegative else some, x.shape)


def _grade(filled: dict[str, Array], graded: Sequence[tuple[Operand, int]], rng: np.random.Generator) -> None:
    """Multiply rows, counted along an axis, by powers of ten."""
    import numpy as np

    for x, along in graded:
        sizes = [extent if axis == along else 1 for axis, extent in enumerate(x.shape)]
        powers = 10 ** rng.uniform(-bounds.GRADES, bounds.GRADES, sizes)
        filled[x.name] = rounded(filled[x.name] * powers.astype(np.float32), x.dtype)


class Inputs(dict[str, "Array"]):
    """The arrays of one probe, by name, for all rivals that are checked on them; `known` is what was found of the right
    answer, which none of them needs to find again."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.known: dict[Any, Any] = {}


def once(x: Arrays, what: Any, find: Callable[[], Any]) -> Any:
    """What `find` finds of these inputs, remembered with them where they are shared."""
    if not isinstance(x, Inputs):
        return find()
    if what not in x.known:
        x.known[what] = find()
    return x.known[what]


@dataclass(frozen=True)
class Problem:
    """Base of all operations. Subclasses are frozen dataclasses whose fields are made by `axis`."""

    op: ClassVar[str]
    probes: ClassVar[tuple[str, ...]] = ("dense",)
    by_executed: ClassVar[bool] = False  # whether shares of a ceiling are by what an algorithm executes: some save much
    called: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})  # axes by other words that a person may type
    within: ClassVar[bool] = False  # what it moves stays within a multiprocessor or its caches: no memory bounds it

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
        """`op/field:value/…`: required fields always, the others where they differ from their default."""
        parts = [self.op]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING or value != field.default:
                parts.append(f"{field.name}:{plain(value)}")
        return "/".join(parts)

    @property
    def descriptor(self) -> str | None:
        """How another benchmark of the operation, which takes one as text, would be asked for it."""
        return None

    @property
    def shown(self) -> dict[str, str]:
        """How a report says those axes of which it says something else than name and value."""
        return {x.name: x.metadata["shown"] for x in dataclasses.fields(self) if x.metadata["shown"]}

    @property
    def drawn(self) -> Problem:
        """The problem whose inputs and truth are this one's too; itself, but for a precision that they do not have."""
        return self

    @property
    def precision(self) -> str:
        """What it asks its arithmetic to be: an element type, or TF32."""
        return "fp32"

    @property
    def on_host(self) -> bool:
        """Whether the time that is asked for is the caller's, not the device's."""
        return False

    @property
    def summed(self) -> int:
        """Of the longest sum that an output is."""
        return 1

    @property
    def graded(self) -> Mapping[str, int]:
        """Inputs whose rows differ in size by 10^±6 in one probe, and the axis along which they are counted: a kernel
        that computes on a grid of fixed steps loses the small ones. Empty where one answer is made of several rows."""
        return {}

    @property
    def special(self) -> Mapping[str, tuple[float, ...]]:
        """Inputs of which one probe has elements that are no finite numbers, and which: where libraries agree on what
        then is right."""
        return {}

    @property
    def flops(self) -> float:
        """Nominal floating-point operations."""
        raise NotImplementedError

    @property
    def bytes(self) -> float:
        """Nominal bytes: every input read once, every output written once."""
        raise NotImplementedError

    def operands(self) -> tuple[Operand, ...]:
        """Inputs first, then outputs; the order in which a kernel takes them."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """What a kernel writes: every operand that is not only read, in order."""
        return tuple(x for x in self.operands() if x.role != "in")

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Fresh host arrays for every operand that is read: normal random unless the probe is a name of other data, or
        what is the operation's own."""
        read = [x for x in self.operands() if x.role != "out"]
        data = probe if probe in DATA else "normal"
        filled = {x.name: self.indices(x, rng) if x.below or x.drawn_by_index else _random(rng, x, data) for x in read}
        if probe == GRADED:
            _grade(filled, [(x, self.graded[x.name]) for x in read if x.name in self.graded], rng)
        return filled

    def specialized(self, x: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        """Inputs with the elements of the special probe at random places."""
        inputs = dict(x)
        for name, values in self.special.items():
            inputs[name] = x[name].copy()
            places = rng.choice(x[name].size, min(len(values), x[name].size), replace=False)
            inputs[name].flat[places] = values[: len(places)]
        return inputs

    def indices(self, x: Operand, rng: np.random.Generator) -> Array:
        """What an input of whole numbers, or of values of its own, holds in the check and in every round: uniform over
        what it may hold, the first and the last of them somewhere, at which a kernel may be wrong; unless an operation
        overrides it."""
        drawn = rng.integers(x.below, size=x.shape, dtype=STORED[x.dtype])
        if drawn.size > 2:
            drawn.flat[rng.choice(drawn.size, 2, replace=False)] = 0, x.below - 1
        return drawn

    def reference(self, x: Arrays) -> dict[str, Array]:
        """The right answer in float64: of every output, by its name. The arrays are the caller's to write to."""
        raise NotImplementedError

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """The largest honest |error| of each element of every output, for a kernel of unit roundoff u (growth
        included)."""
        raise NotImplementedError

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        """The answer against the truth, output by output; an operation whose reference is too dear overrides it."""
        import numpy as np

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
        """Not a number where that is right, an infinity of the right sign where that is."""
        want = self.reference(x)
        bound = self.bound(x, want, u)
        judged = {name: bounds.judged(got[name], want[name], abs(got[name] - want[name]), bound[name]) for name in want}
        return [Evidence(name, SPECIAL, *both) for name, both in judged.items()]

    def digests(self) -> dict[str, str]:
        """Of each field that is data, as a pattern or a file of lengths: the digest of what its name stands for."""
        return {}

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """What a witness of a timed launch looks at: all of it, or a part anywhere that is a problem of its own; an
        operation whose float64 reference would take longer than a millisecond or two overrides it."""
        return Excerpt(self, {x.name: every(x.shape) for x in self.operands()})

    @property
    def footprint(self) -> int:
        """Bytes its operands occupy, padding included."""
        return sum(x.nbytes for x in self.operands())

    @property
    def size_axes(self) -> tuple[str, ...]:
        """The axes that the footprint grows with: whole numbers."""
        return tuple(field.name for field in dataclasses.fields(self) if self._grows(field.name))

    def _grows(self, name: str) -> bool:
        """Whether twice the number takes more room, or half of it less: some operations take not every number."""
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
    """Part of a problem that is a `problem` of the same operation. `places`: for each operand of the whole the places
    along each of its axes, ascending, whose outer product is that operand of the part; `given`: what stands in place
    of inputs that are numbered otherwise there."""

    problem: Problem
    places: Mapping[str, Places]
    given: Arrays = dataclasses.field(default_factory=dict)
