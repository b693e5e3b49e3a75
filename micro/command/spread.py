"""Repeated runs of rival kernels on every timing path, in shuffled order, and the spread between runs.

Figures: intervals that contain the mean of the other runs, standard deviation between runs, next runs inside the
interval that the run before predicts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from micro.command.figure import Promise, rate
from micro.contests.rivals import Rival
from micro.planning.contest import Contest
from reports import multiple_testing, next_run, record, stats
from reports.next_run import Spread

Take = Callable[[Contest, float], record.Contest]  # (contest, seconds) to its record, measured or from the run file
LEAST, MOST = 0.93, 0.98  # share of next runs inside, over all pairs; no pair may be significantly below LEAST
WIDEST = 5.0  # most median width of predicted intervals, in standard deviations from run to run
FEWEST, ENOUGH = 2, 5  # runs of a pair for any figure, and for a judgment
LEAST_VARIANCE = 1e-18  # of a run, since identical rounds have variance 0
DEGREES = 2  # least degrees of freedom to estimate a spread


@dataclass(frozen=True)
class Runs:
    """Runs of a pair on a timing path, in order; `strayed` runs took another path or had no ratio."""

    path: str
    pair: str
    twin: bool
    intervals: tuple[stats.Interval, ...]
    strayed: int = 0

    @property
    def logs(self) -> list[float]:
        return [math.log(interval.center) for interval in self.intervals]

    @property
    def square(self) -> float:
        """Sum of squared deviations of the log ratios from their mean."""
        middle = fmean(self.logs)
        return sum((x - middle) ** 2 for x in self.logs)

    @property
    def holding(self) -> int:
        """Number of intervals that contain the mean of all other runs."""
        total, n = sum(self.logs), len(self.intervals)
        means = [math.exp((total - x) / (n - 1)) for x in self.logs]
        return sum(interval.low <= mean <= interval.high for interval, mean in zip(self.intervals, means, strict=True))

    @property
    def step(self) -> float:
        """Root mean square of the log ratio's difference from run to run."""
        steps = [b - a for a, b in zip(self.logs, self.logs[1:], strict=False)]
        return math.sqrt(fmean(x * x for x in steps))

    def foreseen(self, spread: Spread) -> list[tuple[float, float]]:
        """Return the (low, high) ratio that each run but the last predicts for the next run."""
        return [next_run.next_run(interval, spread.sd, spread.degrees) for interval in self.intervals[:-1]]

    def inside(self, spread: Spread) -> int:
        """Return how many runs lie in the interval that the run before them predicts."""
        pairs = zip(self.foreseen(spread), self.intervals[1:], strict=True)
        return sum(low <= interval.center <= high for (low, high), interval in pairs)


def between(pairs: Sequence[Runs]) -> dict[str, Spread]:
    """Estimate each path's spread between runs: the deviation that the runs' own intervals do not explain.

    After Paule and Mandel (J. Res. NBS 87(5), 1982), over the path's rivals: each run is weighted by its own error,
    so that a single wide interval does not dominate."""
    spreads = {}
    for path in dict.fromkeys(runs.path for runs in pairs):
        rivals = [runs for runs in pairs if runs.path == path and not runs.twin and len(runs.intervals) >= FEWEST]
        degrees = sum(len(runs.intervals) - 1 for runs in rivals)
        if degrees >= DEGREES:
            spreads[path] = Spread(math.sqrt(_variance(rivals, degrees)), degrees)
    return spreads


def _variance(rivals: Sequence[Runs], degrees: int) -> float:
    """Return the between-run variance at which the weighted sum of squares equals `degrees`, or 0."""
    from scipy.optimize import brentq

    def excess(variance: float) -> float:
        return sum(_squares(runs, variance) for runs in rivals) - degrees

    most = max(runs.square for runs in rivals)
    return float(brentq(excess, 0.0, most)) if most > 0 and excess(0.0) > 0 else 0.0


def _squares(runs: Runs, variance: float) -> float:
    """Return the weighted sum of squares around the weighted mean, at this variance between runs."""
    variances = (next_run.standard_error(interval.low, interval.high) ** 2 for interval in runs.intervals)
    weights = [1 / max(square + variance, LEAST_VARIANCE) for square in variances]
    middle = sum(w * x for w, x in zip(weights, runs.logs, strict=True)) / sum(weights)
    return sum(w * (x - middle) ** 2 for w, x in zip(weights, runs.logs, strict=True))


@dataclass(frozen=True)
class PairFigures:
    """Figures of the runs of a pair, for the table of timing paths."""

    path: str
    pair: str
    twin: bool
    runs: int
    strayed: int  # runs that took another path or had no ratio
    holding: int  # intervals that contain the mean of the other runs
    inside: int  # next runs in the interval that the run before them predicts
    sd: float  # of the log ratio
    width: float  # median of predicted intervals, in standard deviations from run to run


def figures(pairs: Sequence[Runs], spreads: dict[str, Spread]) -> list[PairFigures]:
    """Return figures of pairs with enough runs, ordered by path, then the worst pair first."""
    every = [
        _figures(runs, spreads[runs.path]) for runs in pairs if runs.path in spreads and len(runs.intervals) >= FEWEST
    ]
    order = list(dict.fromkeys(runs.path for runs in pairs))
    return sorted(every, key=lambda pair: (order.index(pair.path), pair.holding / pair.runs, pair.inside / pair.runs))


def _figures(runs: Runs, spread: Spread) -> PairFigures:
    widths = [math.log(high / low) for low, high in runs.foreseen(spread)]
    return PairFigures(
        runs.path,
        runs.pair,
        runs.twin,
        len(runs.intervals),
        runs.strayed,
        runs.holding,
        runs.inside(spread),
        math.sqrt(runs.square / (len(runs.intervals) - 1)),
        median(widths) / runs.step if runs.step else math.inf,
    )


def certainly_below(every: Sequence[PairFigures], least: float = LEAST) -> list[PairFigures]:
    """Return the pairs whose share of next runs inside is significantly less than `least`.

    The error rate of all tests together is 5 % (Holm 1979)."""
    from scipy.special import bdtr

    chances = [float(bdtr(x.inside, x.runs - 1, least)) for x in every]
    below = [(p, x) for p, x, count in zip(chances, every, multiple_testing.holm(chances), strict=True) if count]
    return [x for _, x in sorted(below, key=lambda pair: pair[0])]


def rows(every: Sequence[PairFigures], spreads: dict[str, Spread]) -> list[dict[str, Any]]:
    """Return a row for each timing path, for tables and records, with its rivals' sums and all pairs."""
    table = []
    for path, spread in spreads.items():
        pairs = [pair for pair in every if pair.path == path and not pair.twin]
        if pairs:
            count = sum(pair.runs for pair in pairs)
            table.append(
                {
                    "path": path,
                    "runs": count,
                    "sd": spread.sd,
                    "degrees": spread.degrees,
                    "holding": sum(pair.holding for pair in pairs),
                    "inside": sum(pair.inside for pair in pairs),
                    "steps": count - len(pairs),
                    "width": median(pair.width for pair in pairs),
                    "pairs": [asdict(pair) for pair in every if pair.path == path],
                }
            )
    return table


def take(rivals: Sequence[Rival], number: int, seed: int, measure: Take) -> None:
    """Measure run `number` of every pair, in a shuffled order."""
    for rival in random.Random(f"{seed} {number}").sample(rivals, len(rivals)):
        measure(rival.contest(number), rival.seconds)


def runs(rivals: Sequence[Rival], count: int, done: Mapping[str, record.Contest]) -> list[Runs]:
    """Return the runs of each pair, from the records in `done`."""
    every = []
    for rival in rivals:
        seen = [done[name].comparisons[0] for i in range(count) if (name := rival.contest(i).name) in done]
        every.append(of_pair(rival.path, rival.name, seen, rival.took, rival.twin))
    return every


def of_pair(
    path: str, pair: str, seen: Sequence[record.Comparison], took: Callable[[tuple[str, ...]], bool], twin: bool = False
) -> Runs:
    """Return a pair's runs that took its path and have a ratio; all others are counted as strayed."""
    intervals = tuple(
        stats.Interval(x.ratio, x.low, x.high, 0.0)
        for x in seen
        if x.ratio is not None and x.low is not None and x.high is not None and took(x.path)
    )
    return Runs(path, pair, twin, intervals, len(seen) - len(intervals))


def promises(
    runs: Sequence[Runs], pairs: Sequence[PairFigures], spreads: Mapping[str, Spread], unjudged: str | None
) -> Iterator[Promise]:
    """Yield a figure for each path with its worst pair, then the promises, which concern rivals only."""
    rivals = [pair for pair in pairs if not pair.twin]
    for path, spread in spreads.items():
        yield _path([pair for pair in rivals if pair.path == path], path, spread)
    for path in dict.fromkeys(x.path for x in runs if x.path not in spreads):
        lost = sum(x.strayed for x in runs if x.path == path)
        yield Promise(f"between runs, {path}", f"not known: {lost} runs used another path or had no ratio", "", True)
    if rivals:
        yield from _promised(rivals, unjudged)


def _path(pairs: Sequence[PairFigures], path: str, spread: Spread) -> Promise:
    worst, count = pairs[0], sum(pair.runs for pair in pairs)
    held, inside = sum(pair.holding for pair in pairs), sum(pair.inside for pair in pairs)
    strayed = sum(pair.strayed for pair in pairs)
    apart = f"; {strayed} runs used another path or had no ratio" if strayed else ""
    return Promise(
        f"between runs, {path}",
        f"sd {100 * spread.sd:.2g} %; intervals that hold the mean of the other runs: worst {worst.pair} "
        f"{worst.holding} of {worst.runs}, all {held} of {count}; next runs inside {inside} of "
        f"{count - len(pairs)}{apart}",
        "",
        True,
    )


def _promised(rivals: Sequence[PairFigures], unjudged: str | None) -> Iterator[Promise]:
    enough = [pair for pair in rivals if pair.runs >= ENOUGH]
    why = unjudged or (None if enough else f"fewer than {ENOUGH} runs of each pair")
    judged = enough or rivals
    steps = sum(pair.runs - 1 for pair in judged)
    yield rate("next runs where they were expected", sum(x.inside for x in judged), steps, LEAST, why, MOST)
    worst = min(judged, key=lambda pair: pair.inside / (pair.runs - 1))
    below = certainly_below(judged)
    text = f"worst {worst.path}, {worst.pair}: {worst.inside} of {worst.runs - 1}; {len(below)} certainly less"
    yield Promise("… of each pair", text, f"none certainly below {LEAST:g}", not below and not why, why)
    width = median(pair.width for pair in judged)
    name = "… width, in standard deviations from one run to the next"
    yield Promise(name, f"median {width:.2f}", f"{WIDEST:g}", width <= WIDEST and not why, why)
