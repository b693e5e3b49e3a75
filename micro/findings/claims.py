"""Claims of the literature, each a ratio of time, and what a measured ratio says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units

if TYPE_CHECKING:
    from reports.record import Comparison


@dataclass(frozen=True)
class Claim:
    """A published ratio of time."""

    times: float
    source: str

    def beside(self, comparison: Comparison) -> str:
        """Format the claim beside a ratio: refuted if the interval of the ratio excludes it."""
        low, high = comparison.low, comparison.high
        if (low is None or low <= self.times) and (high is None or self.times <= high):
            return f"{self} is inside this interval"
        return f"{self} is refuted here: not {self.times:g} times, {units.ends(low, high)}"

    def __str__(self) -> str:
        return f"the published claim of {self.times:g} times ({self.source})"
