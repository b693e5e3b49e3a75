"""Rare long steps of a program, such as validations and checkpoints, apart from its regular steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median, quantiles

from macro.watching.recording import Recording, Watched
from macro.watching.regular import limit
from macro.watching.regular import regular as regular_steps
from reports.explanation import Line, LongSteps

FEWEST, STEPS = 2, 20  # long steps, and steps in all, from which on the long ones are a class
FAR = 3.0  # quartile distances beyond the upper quartile
RARE, WORTH = 0.1, 0.02  # largest share of the steps, least share of the time
LEAST, OUTSIDE = 0.15, "<module>"  # least share of a long step of a place; Python's name of what is in no function


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
    places = _places(recording, seconds)
    return LongSteps(
        count=counted["long"],
        every=counted["steps"] / counted["long"],
        seconds=seconds,
        share=share,
        place=f"{places[0].file}:{places[0].number}" if places else "",
        text=places[0].text if places else "",
        places=tuple(x for x in places if x.seconds >= LEAST * seconds),
    )


def _far(recording: Recording) -> float:
    """Return the seconds beyond which a step is long where steps vary, by the quartiles of those that are not."""
    steps = [x for process in recording.processes for block in process.plain for x in regular_steps(block)]
    if len(steps) < STEPS:
        return 0.0
    low, _, high = quantiles(steps, n=4)
    return high + FAR * (high - low)


def _places(recording: Recording, seconds: float) -> list[Line]:
    """Return the longest line of each function in long steps of so many seconds, with those of all of its lines."""
    places: dict[tuple[str, str], Line] = {}
    lines = recording.program.get("long lines", {}).get("lines", {})
    every = sum(took for *_, took in lines.values()) or 1.0
    for at, (function, text, took) in sorted(lines.items(), key=lambda x: -x[1][2]):
        file, _, number = at.rpartition(":")
        key = file, number if function == OUTSIDE else function  # lines outside functions are places of their own
        first = places.get(key, Line(file, int(number), function, text, 0.0))
        places[key] = replace(first, seconds=first.seconds + seconds * took / every)
    return sorted(places.values(), key=lambda x: -x.seconds)


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
