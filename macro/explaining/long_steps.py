"""Rare long steps of a program, such as validations and checkpoints, apart from its regular steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from macro.watching.recording import Recording, Watched
from macro.watching.regular import limit
from reports.explanation import LongSteps

FEWEST, STEPS = 2, 20  # long steps, and steps in all, from which on the long ones are a class
RARE, WORTH = 0.1, 0.02  # largest share of the steps, least share of the time


def describe(recording: Recording) -> LongSteps | None:
    """Describe the long steps among all that were watched; None if they are no class of their own."""
    counted = recording.program.get("counted")
    if not counted or counted["steps"] < STEPS or not FEWEST <= counted["long"] <= RARE * counted["steps"]:
        return None
    share = counted["long seconds"] / counted["seconds"]
    if share < WORTH:
        return None
    lines = recording.program.get("long lines", {}).get("lines", {})
    place = max(lines, key=lambda place: lines[place][2], default="")
    return LongSteps(
        count=counted["long"],
        every=counted["steps"] / counted["long"],
        seconds=counted["long seconds"] / counted["long"],
        share=share,
        place=place,
        text=lines[place][1] if place else "",
    )


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
