"""The size from which on a contender wins, bracketed by verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reports.record import Comparison

NEAR = 1.25  # bounds of a crossover this near to each other are near enough


@dataclass(frozen=True)
class Bracket:
    """Crossover between two sizes: no win up to `low`, certain win from `high` on; None: not seen."""

    low: int | None
    high: int | None

    @property
    def middle(self) -> int | None:
        """Size between the bounds that is worth measuring; None if they are near enough."""
        if not self.low or not self.high or self.high / self.low <= NEAR:
            return None
        middle = round(math.sqrt(self.low * self.high))
        return middle if self.low < middle < self.high else None


def bracket(by_size: Mapping[int, Comparison]) -> Bracket:
    """Return the last size without a win, and the next size with one."""
    low = max((size for size, x in by_size.items() if x.verdict in ("slower", "same")), default=None)
    winning = [size for size, x in by_size.items() if x.verdict == "faster" and (low is None or size > low)]
    return Bracket(low, min(winning, default=None))


def between(at: Bracket, tried: Iterable[int], what: str) -> str:
    """Format where a crossover is: `between batch 16 and 23`. `what`: the name of the sizes that were tried."""
    if at.low and at.high:
        return f"between {what} {at.low} and {at.high}"
    if at.high:
        return f"below {what} {at.high}, the smallest tried"
    return f"above {what} {max(tried)}, the largest tried"
