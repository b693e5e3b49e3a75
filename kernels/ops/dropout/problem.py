"""Dropout: the forward scales the kept elements; the backward must drop the same elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernels import places
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import Array, Arrays, Evidence, Excerpt, Operand, Problem, axis

FROM = {"y": "x", "dx": "dy"}
SIGMAS = 6.0  # largest distance of a count from its expectation, in standard deviations


@dataclass(frozen=True)
class Dropout(Problem):
    """Dropout with one random mask: y = x·mask/(1 − rate) and dx = dy·mask/(1 − rate).

    Kernels draw different masks, so the check is: each element is dropped or scaled, y and dx drop the same
    elements, and the counts of kept elements and of kept neighboring pairs agree with the rate.
    """

    op: ClassVar[str] = "dropout"

    units: int = axis("elements", low=2)
    rate: float = axis("share of elements dropped", 0.5, low=0.01)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate >= 1:
            raise UsageError(f"--rate {self.rate}: must be less than 1")

    @property
    def scale(self) -> float:
        return 1 / (1 - self.rate)

    @property
    def flops(self) -> float:
        return 2.0 * self.units

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 1, "dy": 1}

    def operands(self) -> tuple[Operand, ...]:
        row = (1, self.units)
        return Operand("x", row, "in"), Operand("dy", row, "in"), Operand("y", row, "out"), Operand("dx", row, "out")

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        some = places.elements(rng, self.units)
        return self.excerpt_elements(some, units=len(some))

    def reference(self, x: Arrays) -> dict[str, Array]:
        """Return the results for a mask drawn by NumPy."""
        kept = np.random.default_rng(1).random((1, self.units)) >= self.rate
        return {name: x[given].astype("f8") * kept * self.scale for name, given in FROM.items()}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        return {name: 4 * u * self.scale * abs(x[given].astype("f8")) for name, given in FROM.items()}

    def compare(self, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
        kept = {name: got[name] != 0 for name in FROM}  # NaN too
        want = {name: np.where(kept[name], x[given].astype("f8") * self.scale, 0) for name, given in FROM.items()}
        bound, first = self.bound(x, want, u), kept["y"]
        differ = (first != kept["dx"]) & (x["x"] != 0) & (x["dy"] != 0)
        return [
            *(Evidence(name, "scaled", np.abs(got[name] - want[name]), bound[name]) for name in FROM),
            *self._counted(first[0], x["x"][0] != 0),
            Evidence("dx", "both ways", differ.astype("f8"), np.zeros(differ.shape)),
        ]

    def _counted(self, first: Array, nonzero: Array) -> list[Evidence]:
        """Compare the shares of kept elements and of kept pairs with the rate, where x is `nonzero`."""
        neighbors, both = first[:-1] & first[1:], nonzero[:-1] & nonzero[1:]
        if not both.any():
            return []
        chance = 1 - self.rate
        pair = chance * chance
        spread = np.sqrt([[chance * (1 - chance), pair * (1 - pair) + 2 * pair * chance * (1 - chance)]])
        counted = np.array([[first[nonzero].mean() - chance, neighbors[both].mean() - pair]])
        return [Evidence("y", "kept", np.abs(counted), SIGMAS * spread / np.sqrt(both.sum()) + 1 / both.sum())]
