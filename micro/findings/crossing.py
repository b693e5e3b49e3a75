"""Crossover: the size from which on a contender wins, bracketed by verdicts at measured sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from micro.findings.select import Pair, interval, pairs

if TYPE_CHECKING:
    from reports.record import Comparison, Run

NEAR = 1.25  # ratio of a crossover's bounds up to which no size between them is worth measuring


@dataclass(frozen=True)
class Bracket:
    """Bounds of a crossover: no win at `low`, a certain win at `high`; None if no such size was measured."""

    low: int | None
    high: int | None

    @property
    def middle(self) -> int | None:
        """Size between the bounds to measure next; None if a bound is missing or they are near enough."""
        if not self.low or not self.high or self.high / self.low <= NEAR:
            return None
        middle = round(math.sqrt(self.low * self.high))
        return middle if self.low < middle < self.high else None


def bracket(by_size: Mapping[int, Comparison]) -> Bracket:
    """Return the largest size without a win, and the smallest winning size beyond it."""
    low = max((size for size, x in by_size.items() if x.verdict in ("slower", "same")), default=None)
    winning = [size for size, x in by_size.items() if x.verdict == "faster" and (low is None or size > low)]
    return Bracket(low, min(winning, default=None))


def wins(at: Bracket, largest: int, what: str) -> str:
    """Format where a contender wins: `from somewhere between batch 16 and 23 on`.

    `what`: the name of the sizes; `largest`: the largest measured size."""
    if at.low and at.high:
        return f"from somewhere between {what} {at.low} and {at.high} on"
    return f"from {what} {at.high} on" if at.high else f"nowhere up to {what} {largest}"


@dataclass(frozen=True)
class Crossing:
    """A question of crossover: the size from which on contenders win, per group of comparisons."""

    kind: str  # prefix of the names of its contests
    what: str  # name of the contender, in sentences
    along: str  # name of the sizes
    size: Callable[[Pair], int]
    group: Callable[[Pair], tuple[Any, ...] | None]  # key of a pair's group; None leaves the pair out

    def groups(self, run: Run) -> dict[tuple[Any, ...], dict[int, Comparison]]:
        """Return the comparisons of each group by size."""
        groups: dict[tuple[Any, ...], dict[int, Comparison]] = {}
        for pair in pairs(run, self.kind):
            if (group := self.group(pair)) is not None:
                groups.setdefault(group, {})[self.size(pair)] = pair.comparison
        return groups

    def middles(self, run: Run) -> list[tuple[Any, ...]]:
        """Return (*group, size) for each group with a wide bracket: the size in the bracket's middle."""
        middles = {group: bracket(by_size).middle for group, by_size in self.groups(run).items()}
        return [(*group, middle) for group, middle in middles.items() if middle]

    def __call__(self, run: Run) -> list[str]:
        """Return a sentence for each group."""
        sentences = []
        for group, by_size in self.groups(run).items():
            most = max(by_size)
            where = wins(bracket(by_size), most, self.along)
            sentences.append(
                f"{' '.join(map(str, group))}: {self.what} {where}, by {len(by_size)} verdicts; at {most} it takes "
                f"{interval(by_size[most])} times as long."
            )
        return sentences
