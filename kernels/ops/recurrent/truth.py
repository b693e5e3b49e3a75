"""Recurrent layers in float64, each number with its mean squared error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kernels.lazy import np
from kernels.ops.recurrent.known import Known, exact, joined, stacked, through_sigmoid, through_tanh
from kernels.problem import Array, Arrays


@dataclass(frozen=True)
class Weights:
    """Weights of one layer, and the number of features of its state."""

    w: Known
    r: Known
    b: Known
    hidden: int

    def gate(self, of: Known, i: int) -> Known:
        """Return the features of gate i."""
        return of[..., i * self.hidden : (i + 1) * self.hidden]

    def rows(self, of: Known, i: int) -> Known:
        """Return the rows of gate i in weights."""
        return of[i * self.hidden : (i + 1) * self.hidden]


@dataclass(frozen=True)
class Step:
    """A step of a cell: activations of gates, states before and after."""

    gates: Sequence[Known]
    before: tuple[Known, Known]
    after: tuple[Known, Known]


def _lstm(of: Weights, x: Known, h: Known, c: Known) -> Step:
    sums = x @ of.w.transposed + h @ of.r.transposed + of.b
    i, f, o = (of.gate(sums, at).sigmoid() for at in (0, 1, 3))
    g = of.gate(sums, 2).tanh()
    cell = f * c + i * g
    top = cell.tanh()
    return Step((i, f, g, o, top), (h, c), (o * top, cell))


def _lstm_back(of: Weights, step: Step, dh: Known, dc: Known) -> tuple[Known, Known, Known, Known]:
    i, f, g, o, top = step.gates
    of_cell = dc + through_tanh(dh * o, top)
    gates = (
        through_sigmoid(of_cell * g, i),
        through_sigmoid(of_cell * step.before[1], f),
        through_tanh(of_cell * i, g),
        through_sigmoid(dh * top, o),
    )
    sums = joined(gates)
    return sums, sums, sums @ of.r, of_cell * f


def _gru(of: Weights, x: Known, h: Known, c: Known) -> Step:
    above, below = x @ of.w.transposed, h @ of.r.transposed
    r, z = ((of.gate(above, at) + of.gate(below, at) + of.gate(of.b, at)).sigmoid() for at in (0, 1))
    m = of.gate(below, 2) + of.gate(of.b, 3)
    n = (of.gate(above, 2) + of.gate(of.b, 2) + r * m).tanh()
    return Step((r, z, n, m), (h, c), (z.rest() * n + z * h, c))


def _gru_back(of: Weights, step: Step, dh: Known, dc: Known) -> tuple[Known, Known, Known, Known]:
    r, z, n, m = step.gates
    of_n = through_tanh(dh * z.rest(), n)
    of_r, of_z = through_sigmoid(of_n * m, r), through_sigmoid(dh * (step.before[0] - n), z)
    below = joined((of_r, of_z, of_n * r))
    return joined((of_r, of_z, of_n)), below, dh * z + below @ of.r, dc


def _gru_before(of: Weights, x: Known, h: Known, c: Known) -> Step:
    above = x @ of.w.transposed + of.b
    r, z = ((of.gate(above, at) + h @ of.rows(of.r, at).transposed).sigmoid() for at in (0, 1))
    m = r * h
    n = (of.gate(above, 2) + m @ of.rows(of.r, 2).transposed).tanh()
    return Step((r, z, n, m), (h, c), (z.rest() * n + z * h, c))


def _gru_before_back(of: Weights, step: Step, dh: Known, dc: Known) -> tuple[Known, Known, Known, Known]:
    (r, z, n, _), h = step.gates, step.before[0]
    of_n = through_tanh(dh * z.rest(), n)
    of_m = of_n @ of.rows(of.r, 2)
    of_r, of_z = through_sigmoid(of_m * h, r), through_sigmoid(dh * (h - n), z)
    earlier = dh * z + of_m * r + of_r @ of.rows(of.r, 0) + of_z @ of.rows(of.r, 1)
    sums = joined((of_r, of_z, of_n))
    return sums, sums, earlier, dc


def _rnn(of: Weights, x: Known, h: Known, c: Known) -> Step:
    y = (x @ of.w.transposed + h @ of.r.transposed + of.b).tanh()
    return Step((y,), (h, c), (y, c))


def _rnn_back(of: Weights, step: Step, dh: Known, dc: Known) -> tuple[Known, Known, Known, Known]:
    sums = through_tanh(dh, step.gates[0])
    return sums, sums, sums @ of.r, dc


Back: TypeAlias = Callable[[Weights, Step, Known, Known], "tuple[Known, Known, Known, Known]"]
CELLS: Mapping[str, tuple[Callable[[Weights, Known, Known, Known], Step], Back]] = {
    "lstm": (_lstm, _lstm_back),
    "gru": (_gru, _gru_back),
    "gru-before": (_gru_before, _gru_before_back),
    "rnn": (_rnn, _rnn_back),
}


class Layer(Protocol):
    """Sizes and layout of a layer: kernels.ops.recurrent.problem.Recurrent."""

    @property
    def steps(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def biases(self) -> int: ...
    @property
    def cell(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def step(self) -> bool: ...
    def real(self, each: Array | None) -> Array | None: ...
    def by_time(self, sequence: Array) -> Array: ...


def outputs(problem: Layer, x: Arrays) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the outputs by name, and their mean squared errors."""
    of = Weights(exact(x["w"]), exact(x["r"]), exact(x["b"]), problem.hidden)
    given = exact(problem.by_time(x["x"]))
    forward, back = CELLS[problem.cell]
    h = c = exact(np.zeros((problem.batch, problem.hidden)))
    steps: list[Step] = []
    real, none = problem.real(x.get("lengths")), h
    for t in range(problem.steps):
        steps.append(forward(of, given[t], h, c))
        h, c = steps[-1].after
    ys = [step.after[0] if real is None else step.after[0].where(real[t], none) for t, step in enumerate(steps)]
    known = {"y": _sequence(problem, ys)}
    if problem.step:
        known |= _gradients(problem, x, of, given, steps, back)
    return {name: x.value for name, x in known.items()}, {name: x.error for name, x in known.items()}


def _sequence(problem: Layer, steps: Sequence[Known]) -> Known:
    """Return what belongs to steps, in the order of the problem's axes."""
    axis = 0 if problem.layout == "tnc" else 1
    return Known(np.stack([x.value for x in steps], axis), np.stack([x.error for x in steps], axis))


def _gradients(
    problem: Layer, x: Arrays, of: Weights, given: Known, steps: Sequence[Step], back: Back
) -> Mapping[str, Known]:
    real, slope = problem.real(x.get("lengths")), problem.by_time(x["dy"])
    dy, dx = exact(slope if real is None else np.where(real, slope, 0)), list[Known]()
    dh = dc = exact(np.zeros((problem.batch, problem.hidden)))
    dw, dr = (exact(np.zeros_like(x[name])) for name in "wr")
    db = exact(np.zeros((1, problem.biases * problem.hidden)))
    for t in reversed(range(problem.steps)):
        above, below, earlier, dc = back(of, steps[t], dh + dy[t], dc)
        state = steps[t].before[0]
        dx.append(above @ of.w)
        dw += above.transposed @ given[t]
        if problem.cell == "gru-before":
            split = 2 * problem.hidden
            dr += stacked(below[:, :split].transposed @ state, below[:, split:].transposed @ steps[t].gates[3])
        else:
            dr += below.transposed @ state
        ones = exact(np.ones((1, problem.batch)))
        sums = joined((above, below[:, 2 * problem.hidden :])) if problem.cell == "gru" else above
        db += ones @ sums
        dh = earlier
    return {"dx": _sequence(problem, dx[::-1]), "dw": dw, "dr": dr, "db": db}
