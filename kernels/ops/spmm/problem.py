"""A pruned layer: sparse weights times a dense batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from kernels import places
from kernels.lazy import np
from kernels.problem import Array, Arrays, Excerpt, Operand, Problem, axis

LIMIT = 16.0  # as for dense products: the error of correct kernels stays below 5.5 u |W||B|


@lru_cache(maxsize=2)  # a contest has at most two matrices; drawing one with millions of nonzeros takes a second
def _drawn(m: int, k: int, nonzeros: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng((m, k, nonzeros))
    places = np.sort(rng.choice(m * k, nonzeros, replace=False))
    pointers = np.searchsorted(places, np.arange(m + 1) * k).astype(np.int32)
    values = rng.standard_normal(nonzeros, np.float32)
    return values, (places % k).astype(np.int32), pointers


@dataclass(frozen=True)
class Spmm(Problem):
    """Product C = W·B, row-major, with W m×k, of which a share `density` is nonzero, at random places.

    W is not an operand: like a network's weights it is prepared in the kernel's format, and equal for all kernels.
    FLOPs count only its nonzeros; a dense product executes more. A NaN in B is not checked: a dense product
    multiplies it by zeros, a sparse one does not.
    """

    op: ClassVar[str] = "spmm"

    m: int = axis("rows of W and C (outputs)", low=1)
    n: int = axis("columns of B and C (batch size)", low=1)
    k: int = axis("columns of W (inputs)", low=1)
    density: float = axis("share of nonzeros in W", low=0)

    @property
    def nonzeros(self) -> int:
        return max(1, round(min(self.density, 1.0) * self.m * self.k))

    @property
    def flops(self) -> float:
        return 2.0 * self.nonzeros * self.n

    @property
    def bytes(self) -> float:
        """Bytes of B and C once, and of W as CSR: value and 32-bit column per nonzero, 32-bit row pointers."""
        return 4.0 * (self.k * self.n + self.m * self.n) + 8.0 * self.nonzeros + 4.0 * (self.m + 1)

    @property
    def summed(self) -> int:
        return self.k

    @property
    def graded(self) -> dict[str, int]:
        return {"b": 1}

    def operands(self) -> tuple[Operand, ...]:
        return Operand("b", (self.k, self.n), "in"), Operand("c", (self.m, self.n), "out")

    def weights(self) -> tuple[Array, Array, Array]:
        """Return W as CSR: values (float32), columns and row pointers (int32), columns ascending in a row.

        The arrays are shared: callers must not write to them.
        """
        return _drawn(self.m, self.k, self.nonzeros)

    def dense(self) -> Array:
        """Return W as a dense float32 array."""
        values, columns, pointers = self.weights()
        matrix = np.zeros((self.m, self.k), np.float32)
        matrix[np.repeat(np.arange(self.m), np.diff(pointers)), columns] = values
        return matrix

    def digests(self) -> dict[str, str]:
        """Return the digest of W under `density`, the field that determines its data."""
        import hashlib

        digest = hashlib.sha256()
        for array in self.weights():
            digest.update(array.tobytes())
        return {"density": f"sha256:{digest.hexdigest()[:12]}"}

    def _csr(self, absolute: bool = False) -> Any:
        from scipy.sparse import csr_array

        values, columns, pointers = self.weights()
        kept = np.abs(values) if absolute else values
        return csr_array((kept.astype(np.float64), columns, pointers), shape=(self.m, self.k))

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        """Return some columns of B and C; W does not change."""
        columns = places.rows(rng, self.n, self.m + self.k)
        inputs, outputs = places.every((self.k, self.m))
        return Excerpt(replace(self, n=len(columns)), {"b": (inputs, columns), "c": (outputs, columns)})

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"c": self._csr() @ x["b"].astype("f8")}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        return {"c": LIMIT * u * (self._csr(absolute=True) @ np.abs(x["b"].astype("f8")))}
