"""The quality of an explanation: strong, fair or weak, why, and the remedy; cross-checks of its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from reports import units
from reports.explanation import Explanation

KERNEL = ("OS memory", "OS other")  # columns of the operating system's code
WITNESSES = (
    ("agree", "agree within 10 %"),
    ("disagree", "disagree"),
    ("cannot tell", "cannot tell"),
    ("one witness", "have one witness"),
)

PROCESSES = 5  # least number per side with which an interval holds for further processes too
NOWHERE = "in no span"  # a row
UNNAMED = ("dispatch", "unknown")  # first words of columns without a named kernel


@dataclass(frozen=True)
class Measure:
    """A share that should be small."""

    value: float
    fair: float  # shares above this are at best fair
    weak: float  # shares above this are weak
    words: str  # text that contains the share
    remedy: str  # option or change that makes the share smaller

    @property
    def grade(self) -> int:
        """0 strong, 1 fair, 2 weak."""
        return (self.value > self.fair) + (self.value > self.weak)


GRADES = ("strong", "fair", "weak")


def sentence(explained: Explanation) -> str:
    """Return the sentence with the worst share's grade, and the shares of that grade with their remedies."""
    return graded(list(_measures(explained)))


def graded(measures: Sequence[Measure], most: int | None = None) -> str:
    """Return the worst grade and its shares with remedies, or the first `most` shares if all are strong."""
    worst = max(measure.grade for measure in measures)
    chosen = [measure for measure in measures if measure.grade == worst] if worst else measures[:most]
    parts = [measure.words + (f" ({measure.remedy})" if worst else "") for measure in chosen]
    return f"Quality: {GRADES[worst]}: {'; '.join(parts)}."


def _measures(explained: Explanation) -> Iterator[Measure]:
    step = explained.step
    nowhere = max(unnamed(explained, side) / step[side] for side in "ab")
    yield Measure(nowhere, 0.05, 0.2, f"{nowhere:.1%} of a step in no named kernel", "use the framework's profiler")
    larger = "a larger --batch, or " if explained.batch else ""  # scripts have no such option
    left = max(abs(explained.residual[side]) / step[side] for side in "ab")
    yield Measure(left, 0.05, 0.1, f"residual {left:.1%} of a step", f"{larger}--budget 120s")
    verdicts = [row.verdict for row in explained.agreement if row.verdict != "one witness"]
    apart = verdicts.count("disagree")
    yield Measure(
        apart / max(1, len(verdicts)),
        0.1,
        0.3,
        f"trace and replay disagree on {apart} of {len(verdicts)} rows",
        "measure such a row alone by its command",
    )
    looking = max(explained.levels[side].get("P3", 1.0) - 1 for side in "ab")
    remedy = "a larger --batch" if explained.batch else "plain steps decide: --gate 5%"
    yield Measure(looking, 0.1, 0.3, f"watching makes a step {looking:.0%} longer", remedy)
    busy = max(_taken(explained, side) for side in "ab")
    yield Measure(busy, 0.1, 0.3, f"other processes used the cores for {busy:.0%} of the time", "a quiet machine")
    drift = max(abs(explained.levels[side].get("P0'", 1.0) - 1) for side in "ab")
    yield Measure(drift, 0.05, 0.15, f"a step's time drifted by {drift:.1%}", "repeat on a quiet machine")
    few = explained.runs < PROCESSES and explained.gate is None
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


def lines(explained: Explanation) -> Iterator[str]:
    """Yield the lines of an explanation's text that cross-check its figures."""
    yield from _system(explained)
    yield "in no named kernel or no span: " + _shares(explained, explained.step, partial(unnamed, explained))
    yield _witnesses(explained)
    watched = {side: sum(x.seconds(side) for x in explained.cells) for side in "ab"}
    compared = _shares(explained, watched, lambda side: watched[side] - _compared(explained, side))
    yield f"without a second witness, including rows of less than a twentieth: {compared}"


def _system(explained: Explanation) -> list[str]:
    """Return a line with the operating system's time by samples and by its own accounting, if known.

    Samples are of watched steps, accounting is of watched and plain ones."""
    sampled = {side: sum(x.seconds(side) for x in explained.cells if x.column in KERNEL) for side in "ab"}
    sides = [
        f"{explained.name(side)} {units.seconds(sampled[side])} by samples, {_account(explained, side)}"
        for side in explained.system
    ]
    return [f"in the operating system: {'; '.join(sides)}"] if sides else []


def _account(explained: Explanation, side: str) -> str:
    """Return the system time of a side's steps by the operating system's accounting, in words."""
    plain, same = units.seconds(explained.system[side]), explained.watched_system.get(side)
    if same is None:
        return f"{plain} by its accounting of plain steps"
    return f"{units.seconds(same)} by its accounting of the same steps, {plain} of plain steps"


def _shares(explained: Explanation, totals: Mapping[str, float], seconds: Callable[[str], float]) -> str:
    """Return shares of each side's step, plain or watched."""
    shares = [f"{explained.name(side)} {max(0.0, seconds(side)) / (totals[side] or 1.0):.1%}" for side in "ab"]
    return f"{', '.join(shares)} of a step"


def _witnesses(explained: Explanation) -> str:
    """Return how many rows agree between trace and replay, with the times of the rows that disagree."""
    verdicts = [row.verdict for row in explained.agreement]
    counts = [f"{verdicts.count(verdict)} {words}" for verdict, words in WITNESSES if verdicts.count(verdict)]
    apart = [x for x in explained.agreement if x.verdict == "disagree"]
    times = [f"trace {units.seconds(x.trace)}, replay {units.seconds(x.replay)}" for x in apart]
    rows = [f"; {explained.name(x.side)} {x.row}: {both}" for x, both in zip(apart, times, strict=True)]
    head = "rows timed in the trace and by repeating their calls (replay)"
    return f"{head}: {', '.join(counts) or 'none'}{''.join(rows)}"


def _compared(explained: Explanation, side: str) -> float:
    """Return the seconds of a watched step in rows that were also timed by replay."""
    return sum(x.trace for x in explained.agreement if x.side == side and x.verdict != "one witness")
