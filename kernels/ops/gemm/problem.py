"""General matrix product, row-major, as in the BLAS: C = alpha · op(A) · op(B) + beta · C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from kernels import places
from kernels.dtypes import BYTES, STORED, UNIT_ROUNDOFF
from kernels.problem import Evidence, Excerpt, Operand, Problem, axis, once

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

FREIVALDS_FLOPS = 10e9  # above it a float64 product costs more than the measurement
DENSE_LIMIT = 16.0  # honest products make at most 5.5 u |A||B| from K = 1 to 26752, half precision 187 u
FREIVALDS_LIMIT = 4.0  # honest ones reach 1 at short K (a maximum over 3 M values), half precision 100
DTYPES = ("fp32", "tf32", "bf16", "fp16", "int8")
SPARSE_NONZEROS = 16
ENTRIES = 64


@dataclass(frozen=True)
class Gemm(Problem):
    """op(A) is M×K, op(B) K×N, C M×N. trans "nt": A as it is, B stored N×K and read transposed."""

    op: ClassVar[str] = "gemm"
    probes: ClassVar[tuple[str, ...]] = ("dense", "sparse")

    m: int = axis("rows of C", low=1)
    n: int = axis("columns of C", low=1)
    k: int = axis("terms of each sum", low=1)
    trans: str = axis(
        "which operand is stored transposed: A first, then B", "nn", choices=("nn", "nt", "tn", "tt"), said="word"
    )
    dtype: str = axis("element type; tf32 is fp32 in memory, int8 is summed in int32", "fp32", choices=DTYPES)
    alpha: float = axis("factor of the product", 1.0)
    beta: float = axis("factor of the old C", 0.0)
    ld_pad: int = axis("elements between two rows beyond the row itself", 0, low=0)

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
        """Of C."""
        return "int32" if self.dtype == "int8" else self.dtype

    @property
    def drawn(self) -> Gemm:
        return replace(self, dtype="fp32") if self.dtype == "tf32" else self

    def operands(self) -> tuple[Operand, ...]:
        a = (self.m, self.k) if self.trans[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.trans[1] == "n" else (self.n, self.k)
        return (
            Operand("a", a, "in", self.dtype, self.ld_pad),
            Operand("b", b, "in", self.dtype, self.ld_pad),
            Operand("c", (self.m, self.n), "inout" if self.beta else "out", self.sum_dtype, self.ld_pad),
        )

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        x = super().fill(rng, probe)
        if probe == "sparse":  # few terms a sum: nothing averages a loss of precision away
            a, b = self._mathematical(x)
            used = rng.permutation(self.k)[:SPARSE_NONZEROS]
            columns, rows = a[:, used], b[used, :]
            a[...], b[...] = 0, 0  # clearing all but a few columns one by one takes ten times as long
            a[:, used], b[used, :] = columns, rows
        return x

    def _mathematical(self, x: Arrays) -> tuple[Array, Array]:
        """Views of op(A), M×K, and op(B), K×N."""
        a = x["a"] if self.trans[0] == "n" else x["a"].T
        b = x["b"] if self.trans[1] == "n" else x["b"].T
        return a, b

    def _terms(self, x: Arrays) -> tuple[Array, Array]:
        """op(A) and op(B) in float64, without the terms of the sum that are zero in every row."""
        import numpy as np

        a, b = self._mathematical(x)
        if not a[0].all():
            used = np.flatnonzero(a.any(axis=0))
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
        import numpy as np

        a, b = self._terms(x)
        # A bound need not be exact: single precision halves its cost.
        bound: Array = np.abs(a).astype(np.float32) @ np.abs(b).astype(np.float32)
        bound *= abs(self.alpha)
        if self.beta:
            bound += np.abs(self.beta * x["c"])
        return {"c": self._allowed(bound, want["c"], u, a.shape[1])}

    def _allowed(self, absolute: Array, want: Array, u: float, terms: int) -> Array:
        """DENSE_LIMIT u |A||B|. Where C is stored in 16 bits, of exact products summed in single precision
        only partial sums and the end are rounded to them: a kernel that sums in 16 bits must not pass."""
        import numpy as np

        if STORED[self.dtype] in ("f4", "i1"):
            absolute *= DENSE_LIMIT * u
            return absolute
        partial = 4 * DENSE_LIMIT * UNIT_ROUNDOFF["fp32"] + 4 * u / np.sqrt(max(terms, 1))
        allowed: Array = absolute * partial + 2 * u * np.abs(want)
        return allowed

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        if probe == "dense" and self.flops > FREIVALDS_FLOPS:
            return [self._freivalds(x, got["c"], u), self._entries(x, got["c"], u)]
        return super().compare(x, got, u, probe)

    def _freivalds(self, x: Arrays, got: Array, u: float) -> Evidence:
        """C·v against op(A)·(op(B)·v) for three normal vectors (Freivalds 1977); bound: 4 u |aᵢ| |B| in norms."""
        import numpy as np

        v, want, scale = once(x, "freivalds", lambda: self._vectors(x))
        error = np.abs(_times(got, v) - want)
        bound = FREIVALDS_LIMIT * u * scale[:, None]
        return Evidence("c", "freivalds", error, np.broadcast_to(bound, error.shape))

    def _vectors(self, x: Arrays) -> tuple[Array, Array, Array]:
        """The three vectors, what C takes them to, and the norms by which that may be off."""
        import numpy as np

        a, b = self._mathematical(x)
        v = _drawn(x).standard_normal((self.n, 3))
        want = self.alpha * _times(a, _times(b, v))
        scale = abs(self.alpha) * np.sqrt(_squares(a)) * np.sqrt(_squares(b).sum())
        if self.beta:
            want = want + self.beta * _times(x["c"], v)
            scale = scale + abs(self.beta) * np.sqrt(_squares(x["c"]))
        return v, want, scale

    def _entries(self, x: Arrays, got: Array, u: float) -> Evidence:
        """64 entries of C, spread over it and with its corners, each summed in float64."""
        import numpy as np

        a, b = self._mathematical(x)
        rng = _drawn(x)
        i = np.r_[0, self.m - 1, rng.integers(self.m, size=ENTRIES - 2)]
        j = np.r_[0, self.n - 1, rng.integers(self.n, size=ENTRIES - 2)]
        rows, columns = a[i].astype(np.float64), b[:, j].T.astype(np.float64)
        want = self.alpha * (rows * columns).sum(axis=1)
        absolute = abs(self.alpha) * np.abs(rows * columns).sum(axis=1)
        if self.beta:
            want = want + self.beta * x["c"][i, j]
            absolute = absolute + np.abs(self.beta * x["c"][i, j])
        return Evidence("c", "entries", np.abs(got[i, j] - want), self._allowed(absolute, want, u, self.k))


def _drawn(x: Arrays) -> np.random.Generator:
    """A generator seeded by the inputs themselves, which are fresh each time."""
    import numpy as np

    return np.random.default_rng(int.from_bytes(x["a"].ravel()[:4].tobytes(), "little"))


def _blocks(x: Array) -> list[Array]:
    """Row blocks small enough for a float64 copy of one to be cheap."""
    rows = max(1, 2**22 // x.shape[1])
    return [x[i : i + rows] for i in range(0, x.shape[0], rows)]


def _times(x: Array, v: Array) -> Array:
    """x·v in float64."""
    import numpy as np

    return np.concatenate([block.astype(np.float64) @ v for block in _blocks(x)])


def _squares(x: Array) -> Array:
    """Sum of squares of each row in float64."""
    import numpy as np

    return np.concatenate([np.einsum("ij,ij->i", block, block, dtype=np.float64) for block in _blocks(x)])
