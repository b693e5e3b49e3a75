"""General matrix product, row-major, as in the BLAS: C = alpha · op(A) · op(B) + beta · C."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from kernels import bounds, places
from kernels.dtypes import BYTES, LEAST_POSITIVE, STORED, UNIT_ROUNDOFF, rounded
from kernels.lazy import np
from kernels.problem import GRADED, SPECIAL, Array, Arrays, Evidence, Excerpt, Operand, Problem, axis, once

FREIVALDS_FLOPS = 10e9  # above, a float64 product costs more than the measurement, and Freivalds' check replaces it
# Correct sequential sums err by 0.4 u |aᵢ| |B| in the mean and by up to 1.8 u in 1 of 12 000 values.
FREIVALDS_WHOLE, FREIVALDS_LIMIT = 1.0, 4.0
DTYPES = ("fp32", "tf32", "bf16", "fp16", "int8")
SPARSE_NONZEROS = 16
SAMPLE = 256  # elements of op(A)'s first row that show whether most terms are idle
NEGLIGIBLE = 2.0**-30  # share of the largest term below which a float64 reference omits a sparse probe's idle terms
ENTRIES = 64


@dataclass(frozen=True)
class Gemm(Problem):
    """Product with op(A) M×K, op(B) K×N, C M×N; trans "nt" stores B as N×K and reads it transposed.

    A NaN in A makes its row of C NaN, an infinity in B makes its column infinite, as in IEEE 754, unless alpha is 0,
    when a BLAS reads neither operand. int8 has no NaN and no infinity.
    """

    op: ClassVar[str] = "gemm"
    probes: ClassVar[tuple[str, ...]] = ("dense", "sparse")

    m: int = axis("rows of C", low=1)
    n: int = axis("columns of C", low=1)
    k: int = axis("inner dimension (terms of each sum)", low=1)
    trans: str = axis(
        "transposed operands, A then B: n (no) or t (transposed)", "nn", choices=("nn", "nt", "tn", "tt"), shown="word"
    )
    dtype: str = axis("element type; tf32 is stored as fp32, int8 accumulates in int32", "fp32", choices=DTYPES)
    alpha: float = axis("alpha, factor of the product", 1.0)
    beta: float = axis("beta, factor of the old C", 0.0)
    ld_pad: int = axis("padding: leading dimension minus row length, in elements", 0, low=0)

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def precision(self) -> str:
        return self.dtype

    @property
    def bytes(self) -> float:
        c = BYTES[self.sum_dtype] * self.m * self.n
        return float(BYTES[self.dtype] * (self.m * self.k + self.k * self.n) + c * (2 if self.beta else 1))

    @property
    def sum_dtype(self) -> str:
        """Element type of C."""
        return "int32" if self.dtype == "int8" else self.dtype

    @property
    def drawn(self) -> Gemm:
        return replace(self, dtype="fp32") if self.dtype == "tf32" else self

    @property
    def summed(self) -> int:
        return self.k

    @property
    def graded(self) -> dict[str, int]:
        """Axis of A along which test values grow, op(A)'s rows; empty for fp16 and int8, whose ranges are too small."""
        return {} if self.dtype in ("fp16", "int8") else {"a": 0 if self.trans[0] == "n" else 1}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {} if self.dtype == "int8" or self.alpha == 0 else {"a": (math.nan,), "b": (math.inf,)}

    def operands(self) -> tuple[Operand, ...]:
        a = (self.m, self.k) if self.trans[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.trans[1] == "n" else (self.n, self.k)
        return (
            Operand("a", a, "in", self.dtype, self.ld_pad),
            Operand("b", b, "in", self.dtype, self.ld_pad),
            Operand("c", (self.m, self.n), "inout" if self.beta else "out", self.sum_dtype, self.ld_pad),
        )

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Draw the operands; in sparse and graded probes 16 terms of a sum dominate, so that errors show.

        The other terms are small, not zero, so that a kernel cannot recognize the probe; in int8 they are zero.
        """
        x = super().fill(rng, probe)
        if probe in ("sparse", GRADED) and self.k > SPARSE_NONZEROS:
            a, b = self._mathematical(x)
            used = rng.permutation(self.k)[:SPARSE_NONZEROS]
            columns, rows = a[:, used], b[used, :]
            for factor in (a, b):  # indexing all other columns would take ten times as long
                factor *= 0 if self.dtype == "int8" else bounds.IDLE
            a[:, used], b[used, :] = columns, rows
            x = {name: rounded(array, self.dtype) if name in "ab" else array for name, array in x.items()}
        return x

    def _mathematical(self, x: Arrays) -> tuple[Array, Array]:
        """Return views of op(A), M×K, and op(B), K×N."""
        a = x["a"] if self.trans[0] == "n" else x["a"].T
        b = x["b"] if self.trans[1] == "n" else x["b"].T
        return a, b

    def _terms(self, x: Arrays) -> tuple[Array, Array]:
        """Return op(A) and op(B) in float64, without terms of the sum that are negligible in every row."""
        a, b = self._mathematical(x)
        first = np.abs(a[0])
        if (
            self.k > SPARSE_NONZEROS
            and np.isfinite(first).all()
            and np.median(first[:SAMPLE]) <= 2 * bounds.IDLE * first.max()
        ):
            sizes = np.abs(a).max(axis=0).astype(np.float64) * np.abs(b).max(axis=1)
            used = np.flatnonzero(sizes > NEGLIGIBLE * sizes.max())
            a, b = a[:, used], b[used, :]
        return a.astype(np.float64), b.astype(np.float64)

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        rows, columns = places.tile(rng, self.m, self.n, self.k)
        terms = places.every((self.k,))[0]
        part = replace(self, m=len(rows), n=len(columns), ld_pad=0)
        a, b = (rows, terms), (terms, columns)
        return Excerpt(
            part,
            {
                "a": a if self.trans[0] == "n" else a[::-1],
                "b": b if self.trans[1] == "n" else b[::-1],
                "c": (rows, columns),
            },
        )

    def reference(self, x: Arrays) -> dict[str, Array]:
        a, b = self._terms(x)
        want = self.alpha * (a @ b)
        return {"c": want + self.beta * x["c"] if self.beta else want}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        a, b = self._terms(x)
        # A bound need not be exact: single precision halves its cost.
        bound: Array = np.abs(a).astype(np.float32) @ np.abs(b).astype(np.float32)
        bound *= abs(self.alpha)
        if self.beta:
            bound += np.abs(self.beta * x["c"])
        return {"c": self._allowed(bound, want["c"], u, a.shape[1])}

    def _allowed(self, absolute: Array, want: Array, u: float, terms: int) -> Array:
        """Return the largest allowed error; inputs multiplied in the precision in which they are stored add none.

        The least positive number is added, because subnormal results are multiples of it.
        """
        exact = STORED[self.dtype] != "f4" and u <= UNIT_ROUNDOFF[self.dtype]
        return bounds.product(absolute, want, u, terms, inputs_exact=exact) + LEAST_POSITIVE.get(self.dtype, 0.0)

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        if probe in ("sparse", GRADED, SPECIAL) or self.flops <= FREIVALDS_FLOPS:
            return super().compare(x, got, u, probe)
        rng = _unforeseen()
        u *= bounds.wider(probe, self.k)
        return [*self._freivalds(x, got["c"], u, rng), self._entries(x, got["c"], u, rng)]

    def _freivalds(self, x: Arrays, got: Array, u: float, rng: np.random.Generator) -> list[Evidence]:
        """Compare C·v with op(A)·(op(B)·v) for three normal vectors, drawn after C is known (Freivalds 1977).

        In units of u |aᵢ| |B| (norms), the error may be 4 in each row and 1 in the root mean square over all rows.
        """
        a, b = self._mathematical(x)
        v = rng.standard_normal((self.n, 3))
        want = self.alpha * _times(a, _times(b, v))
        if self.beta:
            want += self.beta * _times(x["c"], v)
        scale = once(x, "norms", lambda: self._norms(x))[:, None]
        error = np.abs(_times(got, v) - want)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(error > 0, error / scale, 0.0)
        overall = np.sqrt(np.mean(share * share, keepdims=True))
        bound = np.broadcast_to(FREIVALDS_LIMIT * self._walk(u) * scale, error.shape)
        return [
            Evidence("c", "freivalds", error, bound),
            Evidence("c", "freivalds", overall, np.full(overall.shape, FREIVALDS_WHOLE * self._walk(u))),
        ]

    def _walk(self, u: float) -> float:
        """Return the limits' unit: u, or in a coarse type the random walk of its roundings over K terms."""
        return u if u < bounds.COARSE else 2 * u / self.k**0.5 + 4 * UNIT_ROUNDOFF["fp32"]

    def _norms(self, x: Arrays) -> Array:
        """Return the scale of C·v's error for each row: |alpha| |aᵢ| |B| + |beta| |cᵢ| in norms."""
        a, b = self._mathematical(x)
        scale: Array = abs(self.alpha) * np.sqrt(_squares(a)) * np.sqrt(_squares(b).sum())
        return scale + abs(self.beta) * np.sqrt(_squares(x["c"])) if self.beta else scale

    def _entries(self, x: Arrays, got: Array, u: float, rng: np.random.Generator) -> Evidence:
        """Compare 64 entries of C, the first and the last among them, with sums in float64."""
        a, b = self._mathematical(x)
        i = np.r_[0, self.m - 1, rng.integers(self.m, size=ENTRIES - 2)]
        j = np.r_[0, self.n - 1, rng.integers(self.n, size=ENTRIES - 2)]
        rows, columns = a[i].astype(np.float64), b[:, j].T.astype(np.float64)
        want = self.alpha * (rows * columns).sum(axis=1)
        absolute = abs(self.alpha) * np.abs(rows * columns).sum(axis=1)
        if self.beta:
            want = want + self.beta * x["c"][i, j]
            absolute = absolute + np.abs(self.beta * x["c"][i, j])
        return Evidence("c", "entries", np.abs(got[i, j] - want), self._allowed(absolute, want, u, self.k))


def _unforeseen() -> np.random.Generator:
    """Return a generator seeded by the system's entropy, so that no kernel can predict it."""
    return np.random.default_rng()


def _blocks(x: Array) -> list[Array]:
    """Return blocks of rows small enough for a cheap float64 copy."""
    rows = max(1, 2**22 // x.shape[1])
    return [x[i : i + rows] for i in range(0, x.shape[0], rows)]


def _times(x: Array, v: Array) -> Array:
    """Return x·v in float64."""
    return np.concatenate([block.astype(np.float64) @ v for block in _blocks(x)])


def _squares(x: Array) -> Array:
    """Return the sum of squares of each row in float64."""
    return np.concatenate([np.einsum("ij,ij->i", block, block, dtype=np.float64) for block in _blocks(x)])
