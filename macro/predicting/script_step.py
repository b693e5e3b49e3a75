"""Prediction for a user's script: record its step and the changed step, then time both in turns in its loop.

Unlike for networks, the numerical results of changed steps are not checked.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kernels.devices.cpu import cores
from kernels.errors import LaunchError, SuiteError, Unavailable
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes.base import FAULTS, FUNCTIONS, BaselineProfile, Key, ProcessSnapshot, Step
from macro.explaining.breakdown import Ceilings, place, taken_apart
from macro.explaining.operation_work import Work, alone, work_of
from macro.explaining.rows import Row
from macro.explaining.tries import edits
from macro.predicting import judged, network_step, tried
from macro.predicting.judged import PredictedChange, Say
from macro.predicting.network_step import spread, started_with, steady, symbols
from macro.predicting.processes import Plain, Watching, place_of, script, started
from macro.processes.ahead import room_for
from macro.timing import results, turns
from macro.timing.entry import TWIN, Entry, is_reported
from macro.watching import rounds
from macro.watching.ends import Ended
from macro.watching.program import ScriptObserver
from macro.watching.recording import Recording
from macro.watching.scripts import watch
from macro.watching.watch import Side
from reports.record import Note
from reports.units import counted

if TYPE_CHECKING:
    from reports.store import RunFile

TOPIC = "turns"

OVER = 2.0  # times the budget that the fewest rounds of several processes of each step may take
ROUNDS = 3  # of observing a changed program, for its page faults
KINDS: Mapping[str, type[Problem]] = {"gemm": Gemm, "convolution": Conv}  # kinds that are measured in isolation


def before(step: Step, seconds: float, say: Say, arrays: Path, trials: Sequence[str]) -> BaselineProfile:
    """Watch the unchanged program's steps, and try changes in others of its processes. Raises SuiteError.

    `seconds`: for both; `trials`: names of the changes' trials."""
    seconds /= 1 + bool(trials)
    with place_of() as (folder, streams):
        (recording,) = watch([script(step, seconds)], folder, streams, say, lambda recordings: None)
    breakdown, work = taken_apart(recording, 0.0, Ceilings(None, None)), work_of(recording.called)
    seen = tried.unchanged(step, trials, seconds, say, recording.program.get("peak", 0))
    cells: dict[Key, float] = {((cell.row,), cell.column): cell.a for cell in breakdown.cells}
    process = recording.processes[-1]
    side = Side(Entry(step.framework, step.setting))
    return BaselineProfile(
        symbols(process),
        "",
        {},
        seen.faults,
        seen.error,
        _identity(recording),
        side,
        breakdown.step["a"],
        seen.system,
        cells,
        dict(_rows(work)),
        spread=spread(process.levels.get("P0", [])),
        edits=edits(breakdown),
        between=seen.between,
        tried=seen.tried,
    )


def after(step: Step, say: Say, stack: ExitStack, looks: Sequence[str], arrays: Path | None) -> ProcessSnapshot:
    """Run a few untraced blocks of the changed program, observing `looks`. Raises SuiteError, Ended."""
    look = _observed(ScriptObserver if FUNCTIONS in looks else Plain, step, ROUNDS if looks else 1, stack, say)
    about = started_with(look.program.pid)
    look.end()
    faults = steady(look.watched.faulted["P0"]) if FAULTS in looks else (math.nan, math.nan)
    functions = symbols(look.watched) if FUNCTIONS in looks else {}
    return ProcessSnapshot(functions, *about, *faults, _identity(look.recording))


def _observed(kind: type[Watching], step: Step, count: int, stack: ExitStack, say: Say) -> Watching:
    """Run a program for `count` untraced rounds; return its observer. Raises SuiteError, Ended."""
    folder, streams = stack.enter_context(place_of())
    look = started(kind, script(step, 1.0), folder, streams, stack, say)
    with look.record_end():
        look.settle()
        for number in range(count):
            look.round(number, random.Random(0))
        if isinstance(look, Plain) and look.gone:
            raise LaunchError(look.gone)
        look.read()
    return look


def _rows(work: Work) -> Iterator[tuple[str, Row]]:
    """Yield rows by name, with their largest problems, which stand for all operations of the row."""
    problems: dict[str, list[Problem]] = {}
    for (members, column), (_, call) in work.largest.items():
        again = alone(call) if column in KINDS else None
        if again is not None and "dtype" not in again[1]:
            problems.setdefault(members[0], []).append(KINDS[column](**again[1]))
    for name, of in problems.items():
        yield name, Row(name, *place(name), tuple(of), 0.0)


def _identity(recording: Recording) -> Mapping[str, object]:
    return {name: value for name, value in recording.program.items() if name != "arguments"}


def make(
    step: Step,
    foreseen: Sequence[PredictedChange],
    file: RunFile,
    say: Say,
    folder: Path,
    identity: Mapping[str, Any],
    hopeless: float | None,
) -> list[PredictedChange]:
    """Time changes in turns with the unchanged program and its control run, in groups that fit in memory."""
    at_once = max(1, room_for(identity.get("peak", 0)) // step.plan.generations - judged.UNCHANGED)
    groups = [foreseen[i : i + at_once] for i in range(0, len(foreseen), at_once)]
    if len(groups) > 1:
        say(f"memory has room for {counted(at_once, 'change')} at once, so changes are timed in {len(groups)} groups")
    timed: list[PredictedChange] = []
    for group in groups:
        seconds = step.plan.seconds * len(group) / len(foreseen)
        timed += _time(replace(step, plan=replace(step.plan, seconds=seconds)), group, file, say, hopeless)
    return timed


def fitted(step: Step, changes: int, before: BaselineProfile) -> Step:
    """Return the step with one process of each, if several of all do not fit in memory or in time."""
    plan, processes = step.plan, (changes + judged.UNCHANGED) * step.plan.generations
    seconds = processes * plan.fewest * max(rounds.BLOCK, 2 * before.seconds)  # with a turn's first step
    fits = room_for(before.identity.get("peak", 0)) >= processes and seconds <= OVER * plan.seconds
    if fits or plan.generations == 1:
        return step
    return replace(step, plan=replace(plan, generations=1, fewest=network_step.ROUNDS))


def free_cores(step: Step, changed: Sequence[Step], identity: Mapping[str, Any]) -> list[list[int]]:
    """Return a list of all cores for each program observed in parallel, as most of its time is start-up.

    Raises Unavailable if memory has no room for the unchanged program, its control run and a changed program."""
    peak = identity.get("peak", 0)
    if (room := room_for(peak)) <= judged.UNCHANGED:
        raise Unavailable(
            f"timing needs three processes of {step.plan.network.name} (unchanged, control run, changed), "
            f"{peak / 1e9:.1f} GB each; memory has room for {room}: use smaller batches, or free memory"
        )
    return [sorted(os.sched_getaffinity(0))] * min(cores(), room)


def _time(
    step: Step, foreseen: Sequence[PredictedChange], file: RunFile, say: Say, hopeless: float | None
) -> list[PredictedChange]:
    unchanged, twin = Entry(step.framework, step.setting), Entry(step.framework, step.setting, change=TWIN)
    changed = [Entry(step.framework, x.changed.setting, change=x.words) for x in foreseen]
    steps, choosing = [step, step, *(x.changed for x in foreseen)], hopeless is not None
    entries, seconds = (unchanged, twin, *changed), 0.0
    with judged.kept(foreseen, entries, file, choosing), place_of() as (folder, streams), ExitStack() as stack:
        looks = _all(entries, steps, folder, streams, stack, say)
        going = [look for _, _, look in looks]
        for turn in rounds.in_turns(going, step.plan.seconds, random.Random(step.plan.seed), step.plan.fewest):
            seconds = turn.seconds
            _progress(step, turn, say)
            for entry, generation, look in looks:
                if look in going and look.gone is None:
                    entry.blocks.append((generation, turn.number, look.timed()))
            if hopeless is not None:
                network_step.drop((unchanged, twin), changed, hopeless)
            going[:] = [look for entry, _, look in looks if not entry.ended and look.gone is None]
            left = [entry for entry, _, look in looks if look in going]
            if unchanged not in left or twin not in left or all(entry in (unchanged, twin) for entry in left):
                break  # there is nothing to compare any more, or nothing to compare it with
        for entry, _, look in looks:
            if look.gone:
                say(f"{entry.change or 'unchanged'}: {look.gone}; its earlier rounds count")
    taken = {entry.change or "as it is": results.times(entry) for entry, _, _ in looks}
    file.append(Note(TOPIC, {"steps": taken, "seconds": seconds}))
    return judged.recorded(foreseen, entries, file, None, choosing)


def _progress(step: Step, turn: rounds.Turn, say: Say) -> None:
    """Report progress after rounds 1, 2, 4, …, and after the first round warn if the budget is too small."""
    if is_reported(turn.number):
        say(f"{counted(turn.number, 'round')}, {turn.seconds:.0f} of {step.plan.seconds:.0f} s")
    at_once = replace(step.plan, generations=1)  # all processes have their turns in the same rounds
    for text in turns.over_budget(at_once, 0, turn.seconds, 0.0) if turn.number == 1 else ():
        say(text)


def _all(
    entries: Sequence[Entry],
    steps: Sequence[Step],
    folder: Path,
    streams: tuple[IO[bytes], IO[bytes]],
    stack: ExitStack,
    say: Say,
) -> list[tuple[Entry, int, Plain]]:
    """Start and settle all programs in parallel; return those that run, with their entry and the process's number.

    Entries without a running process get a reason."""

    failures: dict[int, str] = {}

    def settled(entry: Entry, step: Step, number: int) -> tuple[Entry, int, Plain] | None:
        what = "control run" if entry.change == TWIN else entry.change or "unchanged"
        if not number:
            say(f"starting {step.plan.network.name}, {what}")
        source = script(step, step.plan.seconds)
        try:
            look = started(Plain, source, folder, streams, stack, lambda text: say(f"{what}: {text}"))
            with look.record_end():
                look.settle()
        except (SuiteError, Ended) as error:
            failures[id(entry)] = str(error)
            return None
        entry.setting = replace(entry.setting, threads=look.recording.threads)
        return entry, number, look

    pool = stack.enter_context(ThreadPoolExecutor(cores()))  # outlives the programs, which end with their threads
    processes = [(*both, i) for i in range(steps[0].plan.generations) for both in zip(entries, steps, strict=True)]
    looks = [look for look in pool.map(lambda of: settled(*of), processes) if look is not None]
    for entry in entries:
        if all(entry is not of for of, _, _ in looks):
            entry.status, entry.reason = "failed", failures[id(entry)]
    return looks
