"""Softmax and cross-entropy of rows of scores: loss = log Σ exp x − Σ t·x, gradient = softmax(x) − t."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kernels.problem import Operand, Problem, axis

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

STEP, FIRST = 7919, 17  # row i is of class (STEP·i + FIRST) mod classes: a rule, that every device can tell
LIMIT = 64.0  # unit roundoffs: exponentials, a sum in lanes and blocks, a quotient
SMALLEST = 2.0**-124  # below it a share may be flushed to zero, or be the least that is not


@dataclass(frozen=True)
class Softmax(Problem):
    """x is batch × classes. y holds the gradient of the sum of the losses, row by row, then the loss of each row;
    with `want` loss the losses alone. Labels are indices, or rows t of which one element is 1.

    `before`: the network's last layer is itself a softmax or log-softmax, and the loss applies its own to that.
    After a log-softmax it changes nothing but the work: log-softmax is idempotent.
    """

    op: ClassVar[str] = "softmax"

    batch: int = axis("rows", low=1)
    classes: int = axis("columns", low=1)
    labels: str = axis("how the right class is told", "index", choices=("index", "one-hot"))
    before: str = axis("the network's own last layer", "none", choices=("none", "softmax", "log-softmax"))
    want: str = axis("the loss alone, or gradient and loss", "step", choices=("step", "loss"))

    @property
    def count(self) -> int:
        return self.batch * self.classes

    @property
    def flops(self) -> float:
        """An element's maximum, difference, exponential, sum; quotient and difference of a gradient; twice
        that with a layer before; product and sum with t."""
        each = (4.0 if self.want == "loss" else 6.0) * (1 if self.before == "none" else 2)
        return (each + (2.0 if self.labels == "one-hot" else 0.0)) * self.count

    @property
    def bytes(self) -> float:
        return float(self.footprint)

    def targets(self) -> Array:
        """The class of each row, int64."""
        import numpy as np

        return (STEP * np.arange(self.batch, dtype=np.int64) + FIRST) % self.classes

    def operands(self) -> tuple[Operand, ...]:
        shape = (self.batch, self.classes)
        t = (Operand("t", shape, "in"),) if self.labels == "one-hot" else ()
        written = self.batch + (self.count if self.want == "step" else 0)
        return (Operand("x", shape, "in"), *t, Operand("y", (1, written), "out"))

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        import numpy as np

        x = super().fill(rng, probe)
        if "t" in x:
            x["t"] = np.zeros_like(x["t"])
            x["t"][np.arange(self.batch), rng.integers(self.classes, size=self.batch)] = 1
        return x

    def _truth(self, x: Arrays) -> Array:
        import numpy as np

        if "t" in x:
            return x["t"].astype("f8")
        t = np.zeros((self.batch, self.classes))
        t[np.arange(self.batch), self.targets()] = 1
        return t

    def reference(self, x: Arrays) -> dict[str, Array]:
        import numpy as np

        scores, t = x["x"].astype("f8"), self._truth(x)
        q = _softmax(scores) if self.before == "softmax" else scores
        top = q.max(axis=1, keepdims=True)
        total = np.log(np.exp(q - top).sum(axis=1)) + top[:, 0]
        loss: Array = total - (t * q).sum(axis=1)
        if self.want == "loss":
            return {"y": loss[None]}
        gradient = _softmax(q) - t
        if self.before == "softmax":
            gradient = q * (gradient - (gradient * q).sum(axis=1, keepdims=True))
        return {"y": np.concatenate([gradient.ravel(), loss])[None]}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """An exponential is off by its argument's own rounding: u times how far below the top it lies."""
        import numpy as np

        scores, t = x["x"].astype("f8"), self._truth(x)
        depth = scores.max(axis=1, keepdims=True) - scores
        size = np.abs(scores).max(axis=1)
        loss = LIMIT * u * (1 + size + np.abs(want["y"][0, -self.batch :]))
        if self.want == "loss":
            return {"y": loss[None]}
        p = _softmax(scores)
        slack = LIMIT * u * (1 + depth / 8)
        if self.before == "softmax":
            second = _softmax(p) + t
            whole = (second * p).sum(axis=1, keepdims=True)
            gradient = 4 * slack * p * (second + whole)
        else:
            # One more where a log-softmax came before: what it left of the sum, of rounding, is multiplied too.
            gradient = slack * p * (1 if self.before == "none" else 4) + 2 * u * t
        return {"y": np.concatenate([gradient.ravel() + SMALLEST, loss])[None]}


def _softmax(x: Array) -> Array:
    import numpy as np

    found: Array = np.exp(x - x.max(axis=1, keepdims=True))
    found /= found.sum(axis=1, keepdims=True)
    return found
