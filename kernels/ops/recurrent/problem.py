"""A recurrent layer over a batch of sequences, and its gradients."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from kernels import places
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.ops.recurrent import lengths, truth
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis, direction, once

LIMIT = 16.0  # standard errors of the propagated roundings, see truth.py
LIVE = 4  # sequences with a gradient in timed rounds, so that the sums over a batch can be checked
GATES = {"lstm": 4, "gru": 3, "gru-before": 3, "rnn": 1}
BIASES = GATES | {"gru": 4}  # that of the product with the state is inside the reset
# Operations of an element of the state besides the products: forward, gradient
POINTWISE = {"lstm": (13.0, 24.0), "gru": (12.0, 22.0), "gru-before": (12.0, 22.0), "rnn": (3.0, 5.0)}


@dataclass(frozen=True)
class Recurrent(Problem):
    """y = h_t of every step of a layer that starts from a state of zeros; in a step also the gradients from dy.

    Gates are in PyTorch's order, one below the other in w (gates·hidden × inputs), R (the operand r, gates·hidden ×
    hidden) and b:

    - lstm: i, f, o = σ(w x + R h + b), g = tanh(…), in the order i f g o; c' = f c + i g, h' = o tanh c'
    - gru: r, z = σ(w x + R h + b), n = tanh(w x + b_n + r (R h + b_m)), h' = (1 − z) n + z h; the reset comes after
      the product, as in cuDNN; b holds r z n m
    - gru-before: n = tanh(w x + R (r h) + b), as first published (Cho et al. 2014)
    - rnn: h' = tanh(w x + R h + b)

    Sequences that are shorter than `steps` have an operand `lengths`, longest first: outputs of later steps are zero,
    and gradients of them do not count. NaN and infinity are not checked, as they spread over all later steps."""

    op: ClassVar[str] = "recurrent"

    steps: int = axis("steps of a sequence", low=1)
    batch: int = axis("sequences", low=1)
    inputs: int = axis("features of an input", low=1)
    hidden: int = axis("features of the state", low=1)
    cell: str = axis("cell", "lstm", choices=tuple(GATES), shown="word")
    # tnc: time-major; ntc: batch-major
    layout: str = axis("order of the axes of x and y", "tnc", choices=("tnc", "ntc"))
    want: str = direction("forward, or forward and gradients", "forward", "step")
    # texts: a batch of real ones, in the order of lengths or shuffled; steps: as many as the longest, or more
    lengths: str = axis("lengths of the sequences", "full", choices=("full", "sorted", "shuffled"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lengths != "full" and self.batch > len(lengths.every()):
            raise UsageError(f"--batch {self.batch}: must be at most {len(lengths.every())}, the number of sequences")
        if self.lengths != "full" and self.each[0] > self.steps:
            raise UsageError(f"--steps {self.steps}: must be {self.each[0]} or more, the longest sequence's")

    @property
    def each(self) -> tuple[int, ...]:
        """Steps of each sequence, the most first."""
        if self.lengths == "full":
            return (self.steps,) * self.batch
        return lengths.middle(self.batch, self.lengths)

    @property
    def gates(self) -> int:
        return GATES[self.cell]

    @property
    def biases(self) -> int:
        return BIASES[self.cell]

    @property
    def step(self) -> bool:
        """True if the gradients are computed too."""
        return self.want == "step"

    @property
    def states(self) -> int:
        """Number of elements of all states, without padding."""
        return sum(self.each) * self.hidden

    @property
    def flops(self) -> float:
        """Products with inputs and states, in a step three times, and what else an element of a state costs."""
        products = 2.0 * self.gates * (self.inputs + self.hidden) * self.states
        forward, gradient = POINTWISE[self.cell]
        return products * (1 + 2 * self.step) + (forward + gradient * self.step) * self.states

    @property
    def features(self) -> int:
        """Features of an output."""
        return self.hidden

    @property
    def summed(self) -> int:
        return max(self.inputs, self.hidden)

    def sequence(self, features: int) -> tuple[int, int, int]:
        """Return the shape of inputs or outputs of so many features."""
        first = (self.steps, self.batch) if self.layout == "tnc" else (self.batch, self.steps)
        return (*first, features)

    def operands(self) -> tuple[Operand, ...]:
        x, y, rows = self.sequence(self.inputs), self.sequence(self.features), self.gates * self.hidden
        weights = {"w": (rows, self.inputs), "r": (rows, self.hidden), "b": (1, self.biases * self.hidden)}
        drawn = [Operand(name, shape, "in", drawn_by_index=True) for name, shape in weights.items()]
        if self.lengths != "full":
            drawn.insert(0, Operand("lengths", (self.batch,), "in", "int64", below=self.steps + 1))
        given = (Operand("dy", y, "in", drawn_by_index=True),) if self.step else ()
        gained = {"dx": x, **{f"d{name}": shape for name, shape in weights.items()}} if self.step else {}
        outputs = (Operand(name, shape, "out") for name, shape in {"y": y, **gained}.items())
        return (Operand("x", x, "in"), *drawn, *given, *outputs)

    def indices(self, x: Operand, rng: np.random.Generator) -> Array:
        """Return weights of the usual size, ±1/√hidden, or dy of LIVE sequences; otherwise gates would saturate."""
        if x.name == "lengths":
            return np.array(self.each, np.int64)
        if x.name != "dy":
            size = self.hidden**-0.5
            return rng.uniform(-size, size, x.shape).astype(np.float32)
        dy, live = np.zeros(x.shape, np.float32), self.live()
        drawn = rng.standard_normal((self.steps, len(live), self.features), np.float32)
        self.by_time(dy)[:, live] = drawn
        return dy

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        x = super().fill(rng, probe)
        if self.step:
            x["dy"] = rng.standard_normal(self.sequence(self.features), np.float32)
        return x

    def live(self) -> Array:
        """Return the sequences that have a gradient in timed rounds, the same in all rounds and for all kernels."""
        rng = np.random.default_rng((self.batch, self.steps))
        return np.sort(rng.choice(self.batch, min(LIVE, self.batch), replace=False))

    def real(self, each: Array | None) -> Array | None:
        """Return where steps × batch × 1 are no padding, of sequences of these lengths; None if all are full."""
        return None if each is None else (np.arange(self.steps)[:, None] < each)[..., None]

    def by_time(self, sequence: Array) -> Array:
        """Return a view of inputs or outputs as steps × batch × features."""
        return sequence if self.layout == "tnc" else sequence.transpose(1, 0, 2)

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Return some sequences: in a step all that have a gradient, on which alone those of the weights depend."""
        few = self.live() if self.step else places.blocks(rng, self.batch, LIVE)
        where = {}
        for x in self.operands():
            along = list(places.every(x.shape))
            if len(x.shape) == 3 or x.name == "lengths":
                along[1 if len(x.shape) == 3 and self.layout == "tnc" else 0] = few
            where[x.name] = tuple(along)
        return Excerpt(self.part(len(few)), where)

    def part(self, batch: int) -> Recurrent:
        """Return the problem of some of its sequences."""
        return Part(**{**asdict(self), "batch": batch})

    def reference(self, x: Arrays) -> dict[str, Array]:
        return self._of(x)[0]

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        return {name: LIMIT * u * np.sqrt(error) for name, error in self._of(x)[1].items()}

    def _of(self, x: Arrays) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the outputs, and their mean squared errors in squared unit roundoffs."""
        both: tuple[dict[str, Array], dict[str, Array]] = once(x, "truth", lambda: self.truth(x))
        return both

    def truth(self, x: Arrays) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the outputs in float64, and their mean squared errors in squared unit roundoffs."""
        return truth.outputs(self, x)


class Part(Recurrent):
    """Some sequences of a batch, whose lengths are those of the whole batch at their places."""

    @property
    def each(self) -> tuple[int, ...]:
        return (self.steps,) * self.batch
