"""Rare long steps of a program, such as validations and checkpoints, apart from its regular steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median, quantiles
from typing import Any

from macro.watching.recording import Recording, Watched
from macro.watching.regular import limit
from macro.watching.regular import regular as regular_steps
from reports.explanation import Line, LongKind, LongSteps

FEWEST, STEPS = 2, 20  # long steps, and steps in all, from which on the long ones are a class
FAR = 3.0  # quartile distances beyond the upper quartile
RARE, WORTH = 0.1, 0.02  # largest share of the steps, least share of the time
LEAST, MOST = 0.05, 3  # least share of the long steps' time of a kind; kinds at most
OUTSIDE = "<module>"  # Python's name of what is in no function


def describe(recording: Recording) -> LongSteps | None:
    """Describe the long steps among all that were watched; None if they are no class of their own."""
    counted = recording.program.get("counted")
    if not counted or counted["steps"] < STEPS or not FEWEST <= counted["long"] <= RARE * counted["steps"]:
        return None
    share = counted["long seconds"] / counted["seconds"]
    if share < WORTH:
        return None
    seconds = counted["long seconds"] / counted["long"]
    if seconds < _far(recording):
        return None
    every = counted["steps"] / counted["long"]
    kinds = _kinds(recording.program.get("long lines"), seconds, every)
    return LongSteps(
        count=counted["long"],
        every=every,
        seconds=seconds,
        share=share,
        place=f"{kinds[0].line.file}:{kinds[0].line.number}" if kinds else "",
        text=kinds[0].line.text if kinds else "",
        kinds=tuple(kinds),
    )


def _far(recording: Recording) -> float:
    """Return the seconds beyond which a step is long where steps vary, by the quartiles of those that are not."""
    steps = [x for process in recording.processes for block in process.plain for x in regular_steps(block)]
    if len(steps) < STEPS:
        return 0.0
    low, _, high = quantiles(steps, n=4)
    return high + FAR * (high - low)


def _kinds(sampled: Mapping[str, Any] | None, seconds: float, every: float) -> list[LongKind]:
    """Return the long steps by the function of their longest line, the longest in all first.

    `seconds`, `every`: of a mean long step, of which a recording without their numbers has one kind."""
    if not sampled:
        return []
    lines, took, counts = dict[object, Line](), dict[object, float](), Counter[object]()
    for at, (function, text, longest, *count) in sorted(sampled["lines"].items(), key=lambda x: -x[1][2]):
        file, _, number = at.rpartition(":")
        key = file, number if function == OUTSIDE else function  # lines outside functions are kinds of their own
        lines.setdefault(key, Line(file, int(number), function, text, 0.0))
        took[key] = took.get(key, 0.0) + longest
        counts[key] += sum(count)
    first = sorted(lines, key=lambda key: -took[key])[:MOST]
    if not all(counts[key] for key in first):
        return [LongKind(replace(lines[key], seconds=seconds), every) for key in first[:1]]
    return [
        LongKind(replace(lines[key], seconds=took[key] / counts[key]), sampled["steps"] / counts[key])
        for key in first
        if took[key] >= LEAST * sum(took.values())
    ]


def regular(process: Watched, others: Sequence[Watched] = ()) -> Watched:
    """Return the process without long steps; `others`: further processes, whose plain steps decide what is long."""
    every = [x for of in (process, *others) for block in of.plain for x in block]
    if not every:
        return process
    middle = median(every)
    least = limit(every)
    plain = [fmean(short) for block in process.plain if (short := [x for x in block if x <= least])]
    traced = median((end - start) * 1e-9 for start, end, *_ in process.steps) if process.steps else middle
    kept = [i for i, (a, b, *_) in enumerate(process.steps) if (b - a) * 1e-9 <= least * max(1.0, traced / middle)]
    return replace(
        process,
        levels={**process.levels, "P0": plain},
        steps=[process.steps[i] for i in kept],
        rounds=[process.rounds[i] for i in kept],
    )
