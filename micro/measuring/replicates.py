"""Combination of several runs of a contest, each in fresh processes: all samples, and the spread between runs.

It reads records alone, so that runs from a resumed file count like new runs."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reports import flat, next_run, record, stats

if TYPE_CHECKING:
    from micro.planning.contest import Contest
    from reports.store import RunFile

TOPIC = "replicate"
GRAVEST = ("wrong", "failed", "skipped", "planned", "built", "ran")  # statuses without a time, gravest first
WITHIN_RUN = "the ratio itself wanders", "do not see slow change"  # in notes on rounds, dropped for several runs
OTHER_CLOCK = "some runs were timed by another clock"


def passes(contests: Sequence[Contest], count: int, run: record.Run, seed: int) -> Iterator[tuple[int, list[Contest]]]:
    """Yield (number, contests) of each pass: the contests that it lacks in the file, shuffled."""
    recorded = taken(run)
    for number in range(count):
        todo = [contest for contest in contests if (number, contest.name) not in recorded]
        if todo:
            yield number, random.Random(seed * 1000 + number).sample(todo, len(todo))


def keep(file: RunFile, number: int, done: record.Contest) -> None:
    """Append a run to the file as a note; the contest's record follows after all its runs."""
    file.append(record.Note(TOPIC, {"number": number, "contest": done}))


def taken(run: record.Run) -> dict[tuple[int, str], record.Contest]:
    """Return the runs that a file holds, by (number of the run, name of the contest)."""
    import msgspec

    runs = {}
    for note in run.notes:
        if note.topic == TOPIC:
            contest = msgspec.convert(note.data["contest"], record.Contest, from_attributes=True)
            runs[int(note.data["number"]), contest.contest] = contest
    return runs


def until_now(contests: Sequence[Contest], count: int, run: record.Run) -> Iterator[record.Contest]:
    """Yield each contest's runs combined, marked as interrupted if they are fewer than `count`."""
    recorded = taken(run)
    for contest in contests:
        runs = [recorded[number, contest.name] for number in range(count) if (number, contest.name) in recorded]
        if 0 < len(runs) < count:
            stopped = f"interrupted after {len(runs)} of {count} runs"
            runs[-1] = replace(runs[-1], stopped=stopped, interrupted=True)
        if runs:
            yield combined(runs) if len(runs) > 1 else runs[0]


def combined(runs: Sequence[record.Contest]) -> record.Contest:
    """Combine runs of a contest into one record; `processes` of a sample is the number of its run."""
    last = runs[-1]
    seconds = {key: sum(run.seconds.get(key, 0.0) for run in runs) for key in last.seconds}
    rows = [[by_name[x.name] for by_name in map(_by_name, runs) if x.name in by_name] for x in last.results]
    results = tuple(_result(row) for row in rows if len(row) == len(runs))
    comparisons = tuple(_comparison(runs, i) for i in range(len(last.comparisons)))
    return replace(last, results=results, comparisons=comparisons, seconds=seconds)


def _by_name(run: record.Contest) -> dict[str, record.Result]:
    return {result.name: result for result in run.results}


def _result(runs: Sequence[record.Result]) -> record.Result:
    """Combine a case's results of all runs; if one has no time, return the gravest such result."""
    for status in GRAVEST:
        for result in runs:
            if result.status == status:
                return result
    timed = [(result, result.seconds.median) for result in runs if result.seconds is not None]
    seconds = record.Seconds.of([median for _, median in timed])
    (first, once), middle = timed[0], seconds.median
    warnings = dict.fromkeys(text for result in runs for text in result.warnings)
    if len({result.clock for result in runs}) > 1:
        warnings[OTHER_CLOCK] = None
    percents = [x.percent_of_ceiling for x in runs if x.percent_of_ceiling is not None]
    starts = [sum(len(x.samples) for x in runs[:i]) for i in range(len(runs))]
    return replace(
        first,
        status=next((x for x in ("contended", "unreliable") if any(r.status == x for r in runs)), "ok"),
        seconds=seconds,
        flops_per_second=None if first.flops_per_second is None else first.flops_per_second * once / middle,
        bytes_per_second=None if first.bytes_per_second is None else first.bytes_per_second * once / middle,
        percent_of_ceiling=statistics.median(percents) if percents else None,
        error=max((x.error for x in runs if x.error is not None), default=None),
        samples=tuple(s for x in runs for s in x.samples),
        wall_samples=tuple(s for x in runs for s in x.wall_samples),
        rounds=tuple(start + r for start, x in zip(starts, runs, strict=True) for r in x.rounds),
        rejected=tuple(start + r for start, x in zip(starts, runs, strict=True) for r in x.rejected),
        placements=tuple(p for x in runs for p in x.placements),
        processes=tuple(i for i, x in enumerate(runs) for _ in x.samples),
        faults=sum(x.faults or 0 for x in runs),
        witnesses=sum(x.witnesses for x in runs),
        lost=_lost(runs),
        waits=max((x.waits for x in runs if x.waits is not None), default=None),
        canary=_canary(runs),
        warnings=tuple(warnings),
    )


def _lost(runs: Sequence[record.Result]) -> float | None:
    """Share of the rounds of all runs that were lost; None if a run does not record its share."""
    shares = [x.lost * len(x.samples) for x in runs if x.lost is not None]
    return sum(shares) / sum(len(x.samples) for x in runs) if len(shares) == len(runs) else None


def _canary(runs: Sequence[record.Result]) -> dict[str, Any]:
    """Concatenate the times of each canary over all runs."""
    names = dict.fromkeys(name for x in runs for name in x.canary or {})
    return {name: [s for x in runs for s in (x.canary or {}).get(name, ())] for name in names}


def _comparison(runs: Sequence[record.Contest], i: int) -> record.Comparison:
    """Combine the comparisons of all runs, and list each run's ratio."""
    import numpy as np

    alone = [run.comparisons[i] for run in runs]
    last = alone[-1]
    shared = [text for text in last.notes if all(text in x.notes for x in alone)]
    blank = replace(
        last,
        ratio=None,
        low=None,
        high=None,
        verdict="not comparable",
        scope=f"across {len(runs)} processes",
        notes=tuple(text for text in shared if not any(word in text for word in WITHIN_RUN)),
        path=tuple(dict.fromkeys(name for x in alone for name in x.path)),
        next_low=None,
        next_high=None,
        interval=None,
        p=None,
        replicates=tuple(record.Replicate(x.ratio, x.low, x.high, x.verdict) for x in alone),
    )
    for comparison in alone:
        if comparison.verdict == "not comparable":
            return replace(blank, reason=comparison.reason)
    sides = [(by_name[last.baseline], by_name[last.contender]) for by_name in map(_by_name, runs)]
    judged = stats.nested([np.array(flat.log_ratios(*pair)) for pair in sides], last.margin)
    reason = judged.reason or (runs[-1].stopped if judged.verdict == "unresolved" else None)
    filled = replace(blank.judged(judged), reason=reason, notes=(*blank.notes, *judged.notes))
    if judged.shown is None:
        return filled
    low, high = next_run.of_replicates([x.ratio for x in alone if x.ratio is not None]) or (None, None)
    return replace(filled, next_low=low, next_high=high)
