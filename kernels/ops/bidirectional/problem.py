"""Two recurrent layers over the same sequences, one from the first step and one from the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from kernels.errors import UsageError
from kernels.lazy import np
from kernels.ops.recurrent import truth
from kernels.ops.recurrent.problem import Recurrent
from kernels.problem import Array, Arrays, Operand, axis

SEQUENCES = ("x", "y", "dy", "dx")  # operands of a row a step


@dataclass(frozen=True)
class Bidirectional(Recurrent):
    """States of both directions side by side, steps × batch × 2·hidden; w, r and b have those of each direction.

    Each direction is a `Recurrent` layer. Gradients of the inputs are the sum of both."""

    op: ClassVar[str] = "bidirectional"

    directions: int = axis("directions of the layer", 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.layout, self.lengths) != ("tnc", "full"):
            raise UsageError(f"--directions {self.directions}: requires --layout tnc and --lengths full")
        if self.directions != 2:
            raise UsageError(f"--directions {self.directions}: must be 2; without it, a layer has one")

    @property
    def single(self) -> Recurrent:
        """Layer of one direction."""
        return Recurrent(self.steps, self.batch, self.inputs, self.hidden, self.cell, want=self.want)

    @property
    def flops(self) -> float:
        """Operations of both directions, and the sums of the gradients of inputs."""
        return 2 * super().flops + self.step * self.steps * self.batch * self.inputs

    @property
    def features(self) -> int:
        return 2 * self.hidden

    def operands(self) -> tuple[Operand, ...]:
        """Return the operands of a direction, with twice as many rows of weights and features of outputs."""
        return tuple(
            x if len(x.shape) == 3 else replace(x, shape=(2 * x.shape[0], x.shape[1])) for x in super().operands()
        )

    def direction(self, x: Arrays, at: int) -> dict[str, Array]:
        """Return views of the arrays of direction `at`, 0 or 1, its steps in the order in which it takes them."""
        views, states = {}, slice(at * self.hidden, (at + 1) * self.hidden)
        for name, array in x.items():
            if name in SEQUENCES:
                views[name] = (array[..., states] if name in ("y", "dy") else array)[:: 1 - 2 * at]
            else:
                rows = len(array) // 2
                views[name] = array[at * rows : (at + 1) * rows]
        return views

    def part(self, batch: int) -> Bidirectional:
        return replace(self, batch=batch)

    def truth(self, x: Arrays) -> tuple[dict[str, Array], dict[str, Array]]:
        ways = [truth.outputs(self.single, self.direction(x, at)) for at in range(2)]
        values, errors = ({name: _joined(name, *(way[i][name] for way in ways)) for name in ways[0][i]} for i in (0, 1))
        if "dx" in values:
            errors["dx"] += values["dx"] ** 2
        return values, errors


def _joined(name: str, first: Array, second: Array) -> Array:
    """Return an array of both directions."""
    if name == "y":
        return np.concatenate([first, second[::-1]], -1)
    return first + second[::-1] if name == "dx" else np.concatenate([first, second])
