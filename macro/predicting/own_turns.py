"""Trials of changes to a user's script: plain steps of all its processes in turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kernels.devices.cpu import cores
from kernels.errors import SuiteError, Unavailable
from macro.changes.base import Step
from macro.predicting import judged, made
from macro.predicting.foreseen import Foreseen
from macro.predicting.own import Plain, Say, place_of, script, started
from macro.processes.ahead import room_for
from macro.timing import results, turns
from macro.timing.entry import TWIN, Entry
from macro.watching import rounds
from macro.watching.ends import Ended
from reports.record import Note
from reports.units import counted

if TYPE_CHECKING:
    from reports.store import RunFile

TOPIC = "turns"


def make(
    step: Step, foreseen: Sequence[Foreseen], file: RunFile, say: Say, peak: float, hopeless: float | None = None
) -> list[Foreseen]:
    """Time changes in turns with the unchanged program and its control run, as macro.predicting.made.
    `peak`: bytes that a process of it has at most: as many run at once as memory has room for."""
    at_once = max(1, room_for(peak) - judged.UNCHANGED)
    groups = [foreseen[i : i + at_once] for i in range(0, len(foreseen), at_once)]
    if len(groups) > 1:
        say(
            f"memory has room for {counted(at_once, 'change')} at once, so that they take turns in {len(groups)} groups"
        )
    timed: list[Foreseen] = []
    for group in groups:
        seconds = step.plan.seconds * len(group) / len(foreseen)
        timed += _time(replace(step, plan=replace(step.plan, seconds=seconds)), group, file, say, hopeless)
    return timed


def check(step: Step, peak: float) -> None:
    """Raise Unavailable if memory has no room for the unchanged program, its control and a changed one."""
    if (room := room_for(peak)) <= judged.UNCHANGED:
        raise Unavailable(
            f"three processes of {step.plan.network.name} take turns, as it is, once more and changed, of "
            f"{peak / 1e9:.1f} GB each; memory has room for {room}: give it smaller batches, or end what else runs"
        )


def _time(step: Step, foreseen: Sequence[Foreseen], file: RunFile, say: Say, hopeless: float | None) -> list[Foreseen]:
    unchanged, twin = Entry(step.framework, step.setting), Entry(step.framework, step.setting, change=TWIN)
    changed = [Entry(step.framework, x.changed.setting, change=x.words) for x in foreseen]
    steps = [step, step, *(x.changed for x in foreseen)]
    seconds = 0.0
    with place_of() as (folder, streams), ExitStack() as stack:
        looks = _all([unchanged, twin, *changed], steps, folder, streams, stack, say)
        going = [look for _, look in looks]
        for turn in rounds.in_turns(going, step.plan.seconds, random.Random(step.plan.seed), step.plan.fewest):
            seconds = turn.seconds
            _progress(step, turn, say)
            for entry, look in looks:
                if look in going and look.gone is None:
                    entry.blocks.append((0, turn.number, look.block()))
            if hopeless is not None:
                made.drop((unchanged, twin), changed, hopeless)
            going[:] = [look for entry, look in looks if not entry.ended and look.gone is None]
            controls = [look for entry, look in looks if entry in (unchanged, twin)]
            if any(look.gone for look in controls) or all(look in controls for look in going):
                break  # there is nothing to compare any more, or nothing to compare it with
        for entry, look in looks:
            if look.gone:
                say(f"{entry.change or 'as it is'}: {look.gone}; what was timed until then counts")
    taken = {entry.change or "as it is": results.times(entry) for entry, _ in looks}
    file.append(Note(TOPIC, {"steps": taken, "seconds": seconds}))
    timed = [
        replace(
            candidate,
            prediction=judged.measured(candidate.prediction, unchanged, twin, entry, None, hopeless is not None),
        )
        for candidate, entry in zip(foreseen, changed, strict=True)
    ]
    for candidate in timed:
        file.append(candidate.prediction)
    return timed


def _progress(step: Step, turn: rounds.Turn, say: Say) -> None:
    """Report progress after rounds 1, 2, 4, …; after the first also whether the budget is too small."""
    if not turn.number & turn.number - 1:  # 1, 2, 4, 8 …
        say(f"{counted(turn.number, 'round')}, {turn.seconds:.0f} of {step.plan.seconds:.0f} s")
    for text in turns.over_budget(step.plan, 0, turn.seconds, 0.0) if turn.number == 1 else ():
        say(text)


def _all(
    entries: Sequence[Entry],
    steps: Sequence[Step],
    folder: Path,
    streams: tuple[IO[bytes], IO[bytes]],
    stack: ExitStack,
    say: Say,
) -> list[tuple[Entry, Plain]]:
    """Start and settle all programs, some at once; one that fails has its reason, and the others go on."""

    def settled(entry: Entry, step: Step) -> Plain | None:
        say(f"starting {step.plan.network.name}, {entry.change or 'as it is'}")
        try:
            look = started(Plain, script(step, step.plan.seconds), folder, streams, stack, say)
            with look.record_end():
                look.settle()
        except (SuiteError, Ended) as error:
            entry.status, entry.reason = "failed", str(error)
            return None
        entry.setting = replace(entry.setting, threads=int(look.recording.program["threads"]))
        return look

    pool = stack.enter_context(ThreadPoolExecutor(cores()))  # outlives them: they end with the threads that start them
    looks = list(pool.map(settled, entries, steps))
    return [(entry, look) for entry, look in zip(entries, looks, strict=True) if look is not None]
