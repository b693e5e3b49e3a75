"""Embedding table: rows indexed by a batch are looked up, updated by an optimizer, or get a gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from kernels import places
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis

# Gradient ascent: with data in [0, 1) no sum of squares becomes negative.
RATE, EPSILON = -0.125, 1e-8
FIRST, SECOND = 0.9, 0.999  # decays of Adam's moments
STATE = {"sgd": (), "adagrad": ("v",), "adam": ("m", "v")}  # arrays that a rule keeps beside the table
FLOPS = {"sgd": 2.0, "adagrad": 7.0, "adam": 12.0}  # of an element
NAMED = 64  # indexed rows in an excerpt
LIMIT = 16.0  # unit roundoffs of a step


@dataclass(frozen=True)
class Gather(Problem):
    """Lookup of indexed rows of a table into y, batch × width, or an optimizer's step on these rows by g.

    A scatter is the lookup's gradient: dw, rows × width, is the sum of the rows of g by index, elsewhere zero. Words of
    a text repeat: their ids follow Zipf's law, an id's frequency 1/rank, with ranks at random places of the table.

    A NaN in the table is not checked: a one-hot product multiplies it by zeros. A dense step moves all rows, with zero
    gradients in those that are not indexed: of sgd and adagrad with the result of a step, while moments of adam decay.
    """

    op: ClassVar[str] = "gather"

    rows: int = axis("rows of the table", low=1)
    width: int = axis("elements per row", low=1)
    batch: int = axis("rows to look up or update", low=1)
    does: str = axis("operation on these rows", "lookup", choices=("lookup", "step", "dense", "scatter"))
    # sgd: w −= lr·g. adagrad: v += g², w −= lr·g / (√v + ε). adam: m, v = means of g, g², w −= lr·m / (√v + ε)
    rule: str = axis("optimizer of a step", "sgd", choices=("sgd", "adagrad", "adam"))
    order: str = axis("order of these rows in the table", "scattered", choices=("scattered", "block", "text"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch > self.rows and self.order != "text":
            raise UsageError(f"--batch {self.batch}: exceeds --rows {self.rows}; rows repeat only with --order text")
        if self.steps and self.order == "text":
            raise UsageError("--order text: the rows of an optimizer's step are distinct")

    @property
    def named(self) -> int:
        """Number of elements in the indexed rows."""
        return self.batch * self.width

    @property
    def steps(self) -> bool:
        """True for an optimizer's step."""
        return self.does in ("step", "dense")

    @property
    def moved(self) -> int:
        """Number of elements of the rows that a step moves."""
        return (self.batch if self.does == "step" else self.rows) * self.width

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the arrays that a step's rule keeps beside the table."""
        return STATE[self.rule] if self.steps else ()

    @property
    def flops(self) -> float:
        if self.steps:
            return FLOPS[self.rule] * self.moved
        return 1.0 * self.named if self.does == "scatter" else 0.0

    @property
    def summed(self) -> int:
        return int(np.bincount(self.ids()).max()) if self.does == "scatter" else 1

    @property
    def bytes(self) -> float:
        """Bytes moved: ids and gradients are read, indexed rows of table and state read and written, all of dw."""
        if self.does == "scatter":
            return 8.0 * self.batch + 4.0 * (self.named + self.rows * self.width)
        if self.does == "lookup":
            return 8.0 * (self.batch + self.named)
        return 8.0 * self.batch + 4.0 * self.named + 8.0 * (1 + len(self.state)) * self.moved

    @property
    def graded(self) -> dict[str, int]:
        return {"table": 0} if self.does == "lookup" else {}

    def operands(self) -> tuple[Operand, ...]:
        few, table = (self.batch, self.width), (self.rows, self.width)
        ids = Operand("ids", (self.batch,), "in", "int64", below=self.rows)
        if self.does == "scatter":
            return ids, Operand("g", few, "in"), Operand("dw", table, "out")
        if self.does == "lookup":
            # A ceiling counts inputs as read completely; few rows of the table are read, so it is listed as an output.
            return ids, Operand("y", few, "out"), Operand("table", table, "inout")
        state = (Operand(name, table, "inout", nonnegative=name == "v") for name in self.state)
        return ids, Operand("g", few, "in"), Operand("w", table, "inout"), *state

    def indices(self, x: Operand, rng: np.random.Generator) -> Array:
        return self.ids()

    def ids(self) -> Array:
        """Return the indices of the rows, in a text with repeats, in int64 as PyTorch, NumPy and CuPy index.

        They are the same in every round and for all kernels, so that a kernel may precompute a one-hot matrix.
        """
        rng = np.random.default_rng((self.rows, self.batch))
        if self.order == "text":
            return text(self.rows, self.batch, rng)
        if self.order == "block":
            first = int(rng.integers(self.rows - self.batch + 1))
            return np.arange(first, first + self.batch, dtype=np.int64)
        return rng.choice(self.rows, self.batch, replace=False).astype(np.int64)

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        x = super().fill(rng, probe)
        if "v" in self.state:
            np.abs(x["v"], out=x["v"])
        return x

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Return some indexed and some other rows, renumbered."""
        ids = self.ids()
        few = places.blocks(rng, self.batch, NAMED)
        others = rng.integers(self.rows, size=len(few))
        table = np.union1d(ids[few], np.setdiff1d(others, ids))
        batch = np.flatnonzero(np.isin(ids, table)) if self.order == "text" else few
        columns = places.every((self.width,))[0]
        of = {"ids": (batch,), "y": (batch, columns), "g": (batch, columns)}
        part = replace(self, rows=len(table), batch=len(batch))
        where = {x.name: of.get(x.name, (table, columns)) for x in self.operands()}
        return Excerpt(part, where, {"ids": np.searchsorted(table, ids[batch])})

    def reference(self, x: Arrays) -> dict[str, Array]:
        ids = x["ids"]
        if self.does == "lookup":
            return {"y": x["table"][ids].astype("f8"), "table": x["table"].astype("f8")}
        if self.does == "scatter":
            return {"dw": self._scattered(ids, x["g"].astype("f8"))}
        every = self._scattered(ids, x["g"].astype("f8"))
        at = ids if self.does == "step" else slice(None)
        after = {name: x[name].astype("f8") for name in ("w", *self.state)}
        moved = self._moved({name: array[at] for name, array in after.items()}, every[at])
        for name, array in moved.items():
            after[name][at] = array
        return after

    def _moved(self, of: Arrays, g: Array) -> dict[str, Array]:
        """Return rows of the table and of its state after a step by their gradients."""
        if self.rule == "sgd":
            return {"w": of["w"] - RATE * g}
        if self.rule == "adagrad":
            v = of["v"] + g * g
            return {"w": of["w"] - RATE * g / (np.sqrt(v) + EPSILON), "v": v}
        m, v = FIRST * of["m"] + (1 - FIRST) * g, SECOND * of["v"] + (1 - SECOND) * g * g
        return {"w": of["w"] - RATE * m / (np.sqrt(v) + EPSILON), "m": m, "v": v}

    def _scattered(self, ids: Array, g: Array) -> Array:
        dw = np.zeros((self.rows, self.width))
        np.add.at(dw, ids, g)
        return dw

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound the roundings of a step; copied and not indexed rows are exact."""
        if self.does == "lookup":
            return {name: np.zeros_like(array) for name, array in want.items()}
        if self.does == "scatter":
            return {"dw": LIMIT * u * self._scattered(x["ids"], np.abs(x["g"].astype("f8")))}
        bounds = {name: np.zeros_like(array) for name, array in want.items()}
        at = x["ids"] if self.does == "step" else slice(None)
        before, after = x["w"].astype("f8")[at], want["w"][at]
        step = np.abs(after - before)
        if self.rule == "adam":  # whose first moment may cancel
            every = self._scattered(x["ids"], np.abs(x["g"].astype("f8")))[at]
            size = FIRST * np.abs(x["m"].astype("f8")[at]) + (1 - FIRST) * every
            bounds["m"][at] = LIMIT * u * size
            step = step + np.abs(RATE) * size / (np.sqrt(want["v"][at]) + EPSILON)
        bounds["w"][at] = u * (2 * np.abs(after) + 2 * np.abs(before) + LIMIT * step)
        if "v" in self.state:
            bounds["v"][at] = LIMIT * u * want["v"][at]
        return bounds


def text(rows: int, count: int, rng: np.random.Generator) -> Array:
    """Return ids of words as a text has them: frequencies 1/rank (Zipf), with ranks at random places of a table."""
    frequencies = 1 / np.arange(1, rows + 1)
    ranks = rng.choice(rows, count, p=frequencies / frequencies.sum())
    return rng.permutation(rows)[ranks].astype(np.int64)
