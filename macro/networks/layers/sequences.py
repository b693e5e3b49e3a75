"""Layers of sequences (steps × features): rows of a table by ids, recurrent layers, means over steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kernels.ops.gemm.problem import Gemm
from kernels.ops.recurrent.problem import GATES
from kernels.problem import Problem
from macro.networks.layer import Layer, Node, Parameter, Shape, size

MOST = 100_000  # steps
RESETS = ("gru",)  # cells whose product with the state has a bias inside the reset gate


def _check_least(**sizes: tuple[int, int]) -> None:
    """Raise ValueError for a size below its least."""
    for name, (size_, least) in sizes.items():
        if size_ < least:
            raise ValueError(f"{name} {size_}: must be {least} or more")


def sequence(inputs: Sequence[Shape], what: str) -> Shape:
    """Return the first input's shape: steps, features. Raises ValueError if it is not a sequence."""
    if len(inputs[0]) != 2:
        raise ValueError(f"{what} requires a sequence (steps × features), not {inputs[0]}")
    if inputs[0][0] > MOST:
        raise ValueError(f"{inputs[0][0]} steps: must be at most {MOST}")
    return inputs[0]


@dataclass(frozen=True, kw_only=True)
class Embedding(Layer):
    """Rows of a table by a sequence of ids, the network's input: whole numbers below `rows`."""

    kind: ClassVar[str] = "embedding"
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient", "update")

    rows: int
    width: int

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if len(inputs[0]) != 1:
            raise ValueError(f"an embedding requires one id a step, not {inputs[0]}")
        _check_least(rows=(self.rows, 2), width=(self.width, 1))
        return (*inputs[0], self.width)

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        return {"weight": Parameter((self.rows, self.width), 1)}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes: rows are read and written; a gradient is as large as the table."""
        rows = 4.0 * batch * size(node.output)
        return 2 * rows if role == "forward" else 2 * rows + 4.0 * node.count


@dataclass(frozen=True, kw_only=True)
class Recurrent(Layer):
    """A recurrent layer that starts from a state of zeros: the cells of kernels/ops/recurrent, in PyTorch's gates.

    Weights are stored inputs × gates·hidden and hidden × gates·hidden. With two biases, one is added to the product
    with the inputs and one to that with the state, as in cuDNN; gru requires both, as the second is inside its reset.
    NumPy, kernels-only and TensorFlow loop over the steps in any case.
    """

    kind: ClassVar[str] = "recurrent"
    roles: ClassVar[tuple[str, ...]] = ("forward", "gradient", "update")  # libraries compute all gradients at once

    hidden: int
    cell: str = "lstm"
    biases: int = 1
    forget: float = 0.0  # added to the forget gate of an lstm
    last: bool = False  # whether only the state after all steps is the output
    unrolled: bool = False  # a loop over the cell in place of a library's sequence, if the framework has both
    carried: bool = False  # the state after a step is the first of the next step, without a gradient between them
    bidirectional: bool = False  # with a second layer from the last step to the first: both states side by side

    @property
    def directions(self) -> int:
        """Number of directions."""
        return 1 + self.bidirectional

    def output(self, inputs: Sequence[Shape]) -> Shape:
        steps, _ = sequence(inputs, "a recurrent layer")
        if self.cell not in GATES:
            raise ValueError(f"cell {self.cell}: choose from {', '.join(GATES)}")
        _check_least(hidden=(self.hidden, 1))
        if not math.isfinite(self.forget) or (self.forget and (self.cell != "lstm" or self.biases > 1)):
            raise ValueError(f"forget {self.forget:g}: must be finite, and requires the cell lstm with one bias")
        if self.cell in RESETS and self.biases != 2:
            raise ValueError(f"biases {self.biases}: the cell {self.cell} has 2, give biases 2")
        if self.biases not in (1, 2):
            raise ValueError(f"biases {self.biases}: must be 1 or 2")
        if self.carried and self.bidirectional:
            raise ValueError("carried: requires one direction")
        states = self.hidden * self.directions
        return (states,) if self.last else (steps, states)

    def parameters(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        wide = GATES[self.cell] * self.hidden
        weights = {"weight": (inputs[0][1], wide), "recurrent": (self.hidden, wide)}
        single = {name: Parameter(shape, shape[0]) for name, shape in weights.items()}
        single |= {name: Parameter((wide,)) for name in ("bias", "state_bias")[: self.biases]}
        return single | {f"reverse_{name}": x for name, x in single.items() if self.bidirectional}

    def state(self, inputs: Sequence[Shape]) -> Mapping[str, Parameter]:
        """Return the states that are carried, of a sequence."""
        names = ("h", "c") if self.cell == "lstm" else ("h",)
        return {name: Parameter((self.hidden,)) for name in names} if self.carried else {}

    def problems(self, node: Node, batch: int) -> Mapping[str, tuple[Problem, ...]]:
        """Return the GEMMs by role: with all inputs at once, and with the state in each step; their dgrad and wgrad."""
        steps, features = node.inputs[0]
        every, wide, state = steps * batch, GATES[self.cell] * self.hidden, self.hidden
        dgrad = () if node.first else (Gemm(every, features, wide, "nt"),)
        wgrad = Gemm(features, wide, every, "tn"), Gemm(state, wide, every, "tn")
        single = {
            "forward": (Gemm(every, wide, features, "nn"), *(Gemm(batch, wide, state, "nn"),) * steps),
            "gradient": (*dgrad, *(Gemm(batch, state, wide, "nt"),) * steps, *wgrad),
        }
        return {role: problems * self.directions for role, problems in single.items()}

    def bytes(self, node: Node, batch: int, role: str) -> float:
        """Return the bytes beside the GEMMs: sums of gates are read, gates and states written, and read again."""
        states = 4.0 * batch * node.inputs[0][0] * self.hidden * self.directions
        gates = GATES[self.cell] * states
        return 2 * gates + states if role == "forward" else 3 * gates + 2 * states


@dataclass(frozen=True, kw_only=True)
class Mean(Layer):
    """The mean over the steps of a sequence; after (sequence, `input`) over the steps whose id is not 0, padding."""

    kind: ClassVar[str] = "mean"
    inputs_most: ClassVar[int] = 2

    def output(self, inputs: Sequence[Shape]) -> Shape:
        steps, features = sequence(inputs, "a mean over steps")
        if any(shape != (steps,) for shape in inputs[1:]):
            raise ValueError(f"a mean over {steps} steps masks by as many ids, those of the input, not by {inputs[1]}")
        return (features,)
