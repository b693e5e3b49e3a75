"""Numbers moved from one memory into another, in one buffer or in one for each layer of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from kernels import places
from kernels.errors import UsageError
from kernels.ops.transfer.gradients import GRADIENTS, LENGTH
from kernels.problem import Excerpt, Operand, Problem, axis

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

ONE = "one"


@dataclass(frozen=True)
class Transfer(Problem):
    """y = x. `buffers`: in one buffer, or, of a network's gradient, in one for each layer, each by a call of its own.
    `waits`: where another process takes part, when its word is awaited that all has arrived."""

    op: ClassVar[str] = "transfer"

    size: int = axis("bytes in all", low=LENGTH, said="bytes")
    buffers: str = axis(
        "one, or a network's: one a layer, in all as large as its gradient", ONE, choices=(ONE, *GRADIENTS), said="word"
    )
    waits: str = axis("when the other process's word is awaited", "once", choices=("once", "each"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffers != ONE:
            object.__setattr__(self, "size", GRADIENTS[self.buffers].nbytes)
        if self.size % LENGTH:
            raise UsageError(f"--size {self.size}: take a multiple of {LENGTH}")

    @property
    def count(self) -> int:
        return self.size // LENGTH

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of each buffer; they lie one behind the other."""
        return (self.count,) if self.buffers == ONE else GRADIENTS[self.buffers].layers

    @property
    def flops(self) -> float:
        return 0.0

    @property
    def bytes(self) -> float:
        """Each read once and written once."""
        return 2.0 * self.size

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 1}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {"x": (float("nan"), float("inf"))}

    def operands(self) -> tuple[Operand, ...]:
        row = (1, self.count)
        return Operand("x", row, "in"), Operand("y", row, "out")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        row = (*places.every((1,)), places.elements(rng, self.count))
        part = replace(self, size=LENGTH * len(row[1]), buffers=ONE)
        return Excerpt(part, {x.name: row for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"y": x["x"].astype("f8")}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """A number that was moved is the same."""
        import numpy as np

        return {"y": np.zeros_like(want["y"])}
