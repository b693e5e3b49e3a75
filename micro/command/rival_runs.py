"""Rival kernels on every timing path, run after run in shuffled order, and the spread of their runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from micro.command.figure import Figure, rate
from micro.command.spread import ENOUGH, LEAST, MOST, WIDEST, PairFigures, Runs, certainly_below
from micro.contests.rivals import Rival
from micro.planning.contest import Contest
from reports import record, stats
from reports.next_run import Spread

Take = Callable[[Contest, float], record.Contest]  # a contest and its seconds, measured or out of the run file


def take(rivals: Sequence[Rival], number: int, seed: int, measure: Take) -> None:
    """Measure run `number` of every pair, in a shuffled order."""
    for rival in random.Random(f"{seed} {number}").sample(rivals, len(rivals)):
        measure(rival.contest(number), rival.seconds)


def runs(rivals: Sequence[Rival], count: int, done: Mapping[str, record.Contest]) -> list[Runs]:
    """Return the runs of each pair that are in the file."""
    every = []
    for rival in rivals:
        seen = [done[name].comparisons[0] for i in range(count) if (name := rival.contest(i).name) in done]
        every.append(of_pair(rival.path, rival.name, seen, rival.took, rival.twin))
    return every


def of_pair(
    path: str, pair: str, seen: Sequence[record.Comparison], took: Callable[[tuple[str, ...]], bool], twin: bool = False
) -> Runs:
    """Return the runs of a pair that took its path and have a ratio; the others are counted as strayed."""
    intervals = tuple(
        stats.Interval(x.ratio, x.low, x.high, 0.0)
        for x in seen
        if x.ratio is not None and x.low is not None and x.high is not None and took(x.path)
    )
    return Runs(path, pair, twin, intervals, len(seen) - len(intervals))


def figures(
    runs: Sequence[Runs], pairs: Sequence[PairFigures], spreads: Mapping[str, Spread], unjudged: str | None
) -> Iterator[Figure]:
    """Yield a line for each path with its worst pair; then the promises, which are of rivals alone."""
    rivals = [pair for pair in pairs if not pair.twin]
    for path, spread in spreads.items():
        yield _path([pair for pair in rivals if pair.path == path], path, spread)
    for path in dict.fromkeys(x.path for x in runs if x.path not in spreads):
        lost = sum(x.strayed for x in runs if x.path == path)
        yield Figure(f"between runs, {path}", f"not known: {lost} runs took another path or had no ratio", "", True)
    if rivals:
        yield from _promised(rivals, unjudged)


def _path(pairs: Sequence[PairFigures], path: str, spread: Spread) -> Figure:
    worst, count = pairs[0], sum(pair.runs for pair in pairs)
    held, inside = sum(pair.holding for pair in pairs), sum(pair.inside for pair in pairs)
    strayed = sum(pair.strayed for pair in pairs)
    apart = f"; {strayed} runs took another path or had no ratio" if strayed else ""
    return Figure(
        f"between runs, {path}",
        f"sd {100 * spread.sd:.2g} %; intervals that hold the mean of the other runs: worst {worst.pair} "
        f"{worst.holding} of {worst.runs}, all {held} of {count}; next runs inside {inside} of "
        f"{count - len(pairs)}{apart}",
        "",
        True,
    )


def _promised(rivals: Sequence[PairFigures], unjudged: str | None) -> Iterator[Figure]:
    enough = [pair for pair in rivals if pair.runs >= ENOUGH]
    why = unjudged or (None if enough else f"fewer than {ENOUGH} runs of each pair")
    judged = enough or rivals
    steps = sum(pair.runs - 1 for pair in judged)
    yield rate("next runs where they were expected", sum(x.inside for x in judged), steps, LEAST, why, MOST)
    worst = min(judged, key=lambda pair: pair.inside / (pair.runs - 1))
    below = certainly_below(judged)
    text = f"worst {worst.path}, {worst.pair}: {worst.inside} of {worst.runs - 1}; {len(below)} certainly less"
    yield Figure("… of each pair", text, f"none certainly below {LEAST:g}", not below and not why, why)
    width = median(pair.width for pair in judged)
    name = "… width, in standard deviations from one run to the next"
    yield Figure(name, f"median {width:.2f}", f"{WIDEST:g}", width <= WIDEST and not why, why)
