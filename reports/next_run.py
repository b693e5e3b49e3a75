"""Prediction intervals for another run of the same command, beside the interval of this run.

An interval holds only for its run. Another run has other processes, another time and its own error;
`python -m micro.selftest` measures the spread between runs, for each way in which a contest is timed (its
path)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reports import stats
from reports.record import Comparison, Contest, Environment

LEVEL = 0.975  # of each end of a 95 % interval
# Paths (ways of timing a contest) whose spread the self-test measures: clocks, then other properties of a contest.
WALL, CPU, ONE_LOOK, FIXED = "wall", "cpu", "one look", "fixed placement"
PYTHON, THREADS, LOCKSTEP = "python", "threads", "lockstep"
PATHS = (WALL, CPU, ONE_LOOK, FIXED, PYTHON, THREADS, LOCKSTEP)
GENERATIONS = "generations"  # of processes: the path of steps; their spread comes from another measurement


@dataclass(frozen=True)
class Spread:
    """Spread between runs on one path of one machine, in excess of the intervals' width."""

    sd: float  # standard deviation of the log ratio
    degrees: float  # degrees of freedom


def spreads(environment: Environment) -> dict[str, Spread]:
    """Return the spreads by path from the last self-tests of this machine, empty if malformed."""
    by_path = (environment.state.get("selftest") or {}).get("between") or {}
    try:
        return {str(path): Spread(float(value["sd"]), float(value["degrees"])) for path, value in by_path.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def standard_error(low: float, high: float) -> float:
    """Return the standard error of a log ratio from the ends of its 95 % interval, assumed normal.

    It overestimates the error if few rounds or several batches widened the interval."""
    return math.log(high / low) / 2 / stats.quantile(math.inf, LEVEL)


def next_run(interval: stats.Interval, between_sd: float, degrees: float) -> tuple[float, float]:
    """Return the ends of the 95 % prediction interval of the next run's ratio.

    Its variance counts the standard error and the spread between runs twice, once for each run."""
    error = standard_error(interval.low, interval.high)
    half = stats.quantile(degrees, LEVEL) * math.sqrt(2 * (error**2 + between_sd**2))
    return interval.center * math.exp(-half), interval.center * math.exp(half)


def of_replicates(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Return the prediction interval of one more run's ratio from those of several runs; None for one run."""
    n = len(ratios)
    if n < 2:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    center = sum(logs) / n
    spread = sum((x - center) ** 2 for x in logs) / (n - 1)
    half = stats.quantile(n - 1, LEVEL) * math.sqrt(spread * (1 + 1 / n))
    return math.exp(center - half), math.exp(center + half)


def expected(first: Sequence[Comparison], second: Sequence[Comparison]) -> tuple[int, int]:
    """Return how many ratios of the second run lie in the first's prediction intervals, and their total."""
    again = {(comparison.contest, comparison.baseline, comparison.contender): comparison.ratio for comparison in second}
    hits = []
    for comparison in first:
        ratio = again.get((comparison.contest, comparison.baseline, comparison.contender))
        if ratio is not None and comparison.next_low is not None and comparison.next_high is not None:
            hits.append(comparison.next_low <= ratio <= comparison.next_high)
    return sum(hits), len(hits)


def between(path: Sequence[str], by_path: Mapping[str, Spread]) -> Spread | None:
    """Return the widest spread among a comparison's paths; None without paths or if a path is unmeasured."""
    if not path or any(name not in by_path for name in path):
        return None
    return max((by_path[name] for name in path), key=lambda spread: spread.sd * stats.quantile(spread.degrees, LEVEL))


def foreseen(contest: Contest, by_path: Mapping[str, Spread]) -> Contest:
    """Return the contest with prediction intervals for the next run, where the spread is known."""
    return replace(contest, comparisons=tuple(_foreseen(comparison, by_path) for comparison in contest.comparisons))


def _foreseen(x: Comparison, by_path: Mapping[str, Spread]) -> Comparison:
    spread = between(x.path, by_path)
    if spread is None or x.next_low is not None or x.ratio is None or x.low is None or x.high is None:
        return x
    low, high = next_run(stats.Interval(x.ratio, x.low, x.high, 0.0), spread.sd, spread.degrees)
    return replace(x, next_low=low, next_high=high)
