"""The quality of an explanation in one sentence: strong, fair or weak, why, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reports.explanation import Explanation

PROCESSES = 5  # of each side, from which on an interval holds for the next process too
NOWHERE = "in no span"  # a row
UNNAMED = ("dispatch", "unknown")  # first words of columns without a named kernel


@dataclass(frozen=True)
class Measure:
    """A share that should be small. `fair`, `weak`: above which it is no more than that; `words`: with the share in
    it; `remedy`: what makes it smaller."""

    value: float
    fair: float
    weak: float
    words: str
    remedy: str

    @property
    def grade(self) -> int:
        """0 strong, 1 fair, 2 weak."""
        return (self.value > self.fair) + (self.value > self.weak)


GRADES = ("strong", "fair", "weak")


def sentence(explained: Explanation) -> str:
    """Return the grade of the worst share, and each that is not strong with its remedy."""
    measures = list(_measures(explained))
    worst = max(measures, key=lambda measure: measure.grade).grade
    chosen = [measure for measure in measures if measure.grade == worst] if worst else measures
    parts = [measure.words + (f" ({measure.remedy})" if worst else "") for measure in chosen]
    return f"Quality: {GRADES[worst]}: {'; '.join(parts)}."


def _measures(explained: Explanation) -> Iterator[Measure]:
    step = explained.step
    nowhere = max(unnamed(explained, side) / step[side] for side in "ab")
    yield Measure(
        nowhere, 0.05, 0.2, f"{nowhere:.1%} of a step in no named kernel", "the framework's own profiler names it"
    )
    left = max(abs(explained.residual[side]) / step[side] for side in "ab")
    yield Measure(left, 0.05, 0.1, f"residual {left:.1%} of a step", "a larger --batch, or --budget 120s")
    verdicts = [row.verdict for row in explained.agreement if row.verdict != "one witness"]
    apart = verdicts.count("disagree")
    yield Measure(
        apart / max(1, len(verdicts)),
        0.1,
        0.3,
        f"trace and replay disagree on {apart} of {len(verdicts)} rows",
        "such a row's command measures it alone",
    )
    looking = max(explained.levels[side].get("P3", 1.0) - 1 for side in "ab")
    yield Measure(looking, 0.1, 0.3, f"watching makes a step {looking:.0%} longer", "a larger --batch")
    busy = max(_taken(explained, side) for side in "ab")
    yield Measure(busy, 0.1, 0.3, f"other processes had the cores for {busy:.0%} of the time", "a quiet machine")
    drift = max(abs(explained.levels[side].get("P0'", 1.0) - 1) for side in "ab")
    yield Measure(drift, 0.05, 0.15, f"a step drifted by {drift:.1%} meanwhile", "once more, on a quiet machine")
    few = explained.runs < PROCESSES
    plural = "es" * (explained.runs > 1)
    yield Measure(float(few), 0.5, 2.0, f"{explained.runs} process{plural} of each side", f"--runs {PROCESSES}")


def unnamed(explained: Explanation, side: str) -> float:
    """Return seconds of a step in dispatch, in code without a name, and outside all spans."""
    return sum(cell.seconds(side) for cell in explained.cells if cell.row == NOWHERE or cell.column.startswith(UNNAMED))


def _taken(explained: Explanation, side: str) -> float:
    """Return the share of watched time in which a thread neither ran nor waited voluntarily."""
    ran = explained.closure[side].get("threads")
    idle = sum(cell.seconds(side) for cell in explained.cells if cell.column == "waiting")
    return 0.0 if ran is None else max(0.0, 1 - ran - idle / explained.step[side])
