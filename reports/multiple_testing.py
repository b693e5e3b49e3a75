"""Multiple testing in one run: expected errors, and verdicts that hold jointly (Holm 1979)."""

from __future__ import annotations

from collections.abc import Sequence

from reports import stats
from reports.record import Comparison

TOGETHER = 0.05  # family-wise error: chance that any verdict marked as holding jointly is wrong


def alone(comparison: Comparison) -> bool:
    """Return whether a verdict has its error alone, not one that is shared with the run's other verdicts."""
    return comparison.p is not None and comparison.interval in (stats.ROUNDS, stats.GENERATIONS)


def holm(chances: Sequence[float]) -> list[bool]:
    """Return which p-values are significant by Holm's procedure at family-wise error TOGETHER."""
    counts = [False] * len(chances)
    for rank, i in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[i] > TOGETHER / (len(chances) - rank):
            break
        counts[i] = True
    return counts


def kept(comparisons: Sequence[Comparison]) -> list[bool]:
    """Return which verdicts hold jointly by Holm's procedure; none if fewer than two have their own error."""
    asked = [i for i, x in enumerate(comparisons) if alone(x)]
    counts = holm([comparisons[i].p or 0.0 for i in asked]) if len(asked) > 1 else [False] * len(asked)
    stand = {i for i, count in zip(asked, counts, strict=True) if count}
    return [i in stand and x.verdict != "unresolved" for i, x in enumerate(comparisons)]


def sentence(comparisons: Sequence[Comparison]) -> str | None:
    """Return the remark on the expected number of wrong verdicts, or None for fewer than two verdicts."""
    count = sum(map(alone, comparisons))
    if count < 2:
        return None
    wrong = (1 - stats.JUDGED) * count
    return (
        f"{count} comparisons, verdicts wrong with probability {1 - stats.JUDGED:.0%}: expect up to {wrong:.2g} wrong. "
        f"*: holds jointly with all others marked * (Holm), wrong in at most one run of {round(1 / TOGETHER)}."
    )
