"""Numbers moved from one memory into another, in one buffer or in one for each layer of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kernels import moved
from kernels.errors import UsageError
from kernels.moved import LENGTH
from kernels.ops.transfer.gradients import GRADIENTS
from kernels.problem import Excerpt, Operand, Problem, axis

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

ONE, HUNDRED = "one", "hundred"
PIECES = 100  # buffers of HUNDRED
USUAL = 1 << 20  # bytes


@dataclass(frozen=True)
class Transfer(Problem):
    """y = x. `size` of 0: as many bytes as the gradient of `buffers` has, else USUAL. `buffers`: in one, in a hundred
    equal ones, or, of a network's gradient, in one for each layer, each by a call of its own. Where another process
    takes part: `waits`, when its word is awaited that all has arrived, and `back`, when it sends back what it got.
    Where a GPU does: `clock`, whose time it is. Raises UsageError for a size that is not the gradient's."""

    op: ClassVar[str] = "transfer"

    size: int = axis("bytes in all; 0: those of the gradient of --buffers, else 1 MiB", low=LENGTH, said="bytes")
    buffers: str = axis(
        "one, a hundred equal ones, or a network's: one a layer", ONE, choices=(ONE, HUNDRED, *GRADIENTS), said="word"
    )
    waits: str = axis("when the other process's word is awaited", "once", choices=("once", "each"))
    back: str = axis(
        "when the other process sends back: after all, or along with what comes", "after", choices=("after", "along")
    )

    clock: str = axis(
        "whose: the device's, or its caller's, who waits for the end of each copy",
        "device",
        choices=("device", "caller"),
    )

    def __post_init__(self) -> None:
        own = GRADIENTS[self.buffers].nbytes if self.buffers in GRADIENTS else 0
        grain = LENGTH * (PIECES if self.buffers == HUNDRED else 1)
        if self.size == 0:
            object.__setattr__(self, "size", own or USUAL // grain * grain)
        super().__post_init__()
        if self.size % grain:
            raise UsageError(f"--size {self.size}: take a multiple of {grain}")
        if own and self.size != own:
            named = f"--size {self.size}: the gradient of --buffers {self.buffers}"
            raise UsageError(f"{named} has {own} bytes; leave one of the two out")

    @property
    def on_host(self) -> bool:
        return self.clock == "caller"

    @property
    def count(self) -> int:
        return self.size // LENGTH

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of each buffer; they lie one behind the other."""
        if self.buffers == HUNDRED:
            return (self.count // PIECES,) * PIECES
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
        return {"x": moved.SPECIAL}

    def operands(self) -> tuple[Operand, ...]:
        row = (1, self.count)
        return Operand("x", row, "in"), Operand("y", row, "out")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        return moved.some(self, rng, self.count, buffers=ONE)

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"y": moved.truth(x["x"])}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """A number that was moved is the same."""
        return {"y": moved.exactly(want["y"])}
