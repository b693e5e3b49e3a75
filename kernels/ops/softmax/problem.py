"""Softmax and cross-entropy of rows of scores: loss = log Σ exp x − Σ t·x, gradient = softmax(x) − t."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from kernels import places
from kernels.lazy import np
from kernels.problem import SPECIAL, Array, Arrays, Evidence, Excerpt, Operand, Problem, axis, direction

LIMIT = 64.0  # unit roundoffs: exponentials, a sum in lanes and blocks, a quotient
SMALLEST = 2.0**-124  # below it a probability may be flushed to zero or to a least positive number


@dataclass(frozen=True)
class Softmax(Problem):
    """Cross-entropy loss of each row of x, batch × classes; in a step also dx, the gradient of their sum.

    Labels are int64 indices, as PyTorch's losses, NumPy and CuPy accept them, or one-hot rows t.
    A NaN makes the gradient of its row NaN; its loss is not checked, as a logarithm computed by bits has no NaN.
    """

    op: ClassVar[str] = "softmax"

    batch: int = axis("rows", low=1)
    classes: int = axis("columns", low=1)
    labels: str = axis("format of the labels", "index", choices=("index", "one-hot"))
    # the loss applies its own log-softmax to this layer; after log-softmax, which is idempotent, only the work changes
    before: str = axis("preceding layer of the network", "none", choices=("none", "softmax", "log-softmax"))
    want: str = direction("loss only, or loss and gradient", "step", "forward")

    @property
    def count(self) -> int:
        return self.batch * self.classes

    @property
    def flops(self) -> float:
        """Operations: maximum, difference, exponential and sum; in a step also quotient and difference.

        A preceding layer doubles the operations; one-hot labels add a product and a sum with t.
        """
        each = (4.0 if self.want == "forward" else 6.0) * (1 if self.before == "none" else 2)
        return (each + (2.0 if self.labels == "one-hot" else 0.0)) * self.count

    @property
    def summed(self) -> int:
        return self.classes

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {"x": (math.nan,)} if self.want == "step" else {}

    def operands(self) -> tuple[Operand, ...]:
        shape = (self.batch, self.classes)
        truth = Operand("t", shape, "in", drawn_by_index=True)
        if self.labels == "index":
            truth = Operand("labels", (self.batch,), "in", "int64", below=self.classes)
        dx = (Operand("dx", shape, "out"),) if self.want == "step" else ()
        return (Operand("x", shape, "in"), truth, *dx, Operand("loss", (self.batch,), "out"))

    def indices(self, x: Operand, rng: np.random.Generator) -> Array:
        if x.name == "labels":
            return super().indices(x, rng)
        t = np.zeros(x.shape, np.float32)
        t[np.arange(self.batch), rng.integers(self.classes, size=self.batch)] = 1
        return t

    def _truth(self, x: Arrays) -> Array:
        """Return the labels as one-hot rows."""
        if "t" in x:
            return x["t"].astype("f8")
        t = np.zeros((self.batch, self.classes))
        t[np.arange(self.batch), x["labels"]] = 1
        return t

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        rows = places.rows(rng, self.batch, self.classes)
        return self.excerpt_rows(rows, batch=len(rows))

    def reference(self, x: Arrays) -> dict[str, Array]:
        scores, t = x["x"].astype("f8"), self._truth(x)
        q = _softmax(scores) if self.before == "softmax" else scores
        top = q.max(axis=1, keepdims=True)
        total = np.log(np.exp(q - top).sum(axis=1)) + top[:, 0]
        loss: Array = total - (t * q).sum(axis=1)
        if self.want == "forward":
            return {"loss": loss}
        gradient = _softmax(q) - t
        if self.before == "softmax":
            gradient = q * (gradient - (gradient * q).sum(axis=1, keepdims=True))
        return {"dx": gradient, "loss": loss}

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        compared = super().compare(x, got, u, probe)
        if probe != SPECIAL:
            return compared
        lost = np.isnan(x["x"]).any(axis=1)
        return [replace(e, error=np.where(lost, 0.0, e.error)) if e.operand == "loss" else e for e in compared]

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound the errors; an exponential's error grows with its argument's depth below the row maximum."""
        scores, t = x["x"].astype("f8"), self._truth(x)
        depth = scores.max(axis=1, keepdims=True) - scores
        size = np.abs(scores).max(axis=1)
        loss = LIMIT * u * (1 + size + np.abs(want["loss"]))
        if self.want == "forward":
            return {"loss": loss}
        p = _softmax(scores)
        slack = LIMIT * u * (1 + depth / 8)
        if self.before == "softmax":
            second = _softmax(p) + t
            expected = (second * p).sum(axis=1, keepdims=True)
            gradient = 4 * slack * p * (second + expected)
        else:
            # A preceding log-softmax leaves a rounding error in the sum, which is multiplied too.
            gradient = slack * p * (1 if self.before == "none" else 4) + 2 * u * t
        return {"dx": gradient + SMALLEST, "loss": loss}


def _softmax(x: Array) -> Array:
    probabilities: Array = np.exp(x - x.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return probabilities
