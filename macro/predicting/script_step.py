"""Prediction for a user's script: record its step and the changed step, then time both in turns in its loop.

Unlike for networks, the numerical results of changed steps are not checked.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import IO, TYPE_CHECKING, Any, TypeVar

from kernels.devices.cpu import cores
from kernels.errors import LaunchError, SuiteError, Unavailable
from kernels.libs import preload
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes.base import FAULTS, FUNCTIONS, BaselineProfile, Key, ProcessSnapshot, Step
from macro.explaining.breakdown import Ceilings, place, taken_apart
from macro.explaining.operation_work import Work, alone, work_of
from macro.explaining.rows import Row
from macro.explaining.tries import edits
from macro.predicting import judged, network_step
from macro.predicting.judged import PredictedChange, Say
from macro.predicting.network_step import spread, started_with, steady, symbols
from macro.processes.ahead import room_for
from macro.timing import results, turns
from macro.timing.entry import TWIN, Entry, is_reported
from macro.watching import ends, rounds
from macro.watching.ends import Ended
from macro.watching.plain import PlainObserver
from macro.watching.program import ScriptObserver
from macro.watching.recording import Recording, Watched
from macro.watching.script import Program, Script
from macro.watching.scripts import watch
from macro.watching.watch import Side
from reports.record import Note
from reports.units import counted

if TYPE_CHECKING:
    from reports.store import RunFile

TOPIC = "turns"

ROUNDS = 3  # of observing a changed program, for its page faults
PROCESSES, FEW_PROCESSES = (
    3,
    1.8,
)  # of the unchanged program for its page faults; t of 2 degrees over the normal quantile
KINDS: Mapping[str, type[Problem]] = {"gemm": Gemm, "convolution": Conv}  # kinds that are measured in isolation
Watching = TypeVar("Watching", bound=ScriptObserver)


def script(step: Step, seconds: float) -> Script:
    """Return the program with the step's heap, threads and variables, to be watched for `seconds`."""
    assert step.script is not None
    setting = step.setting
    variables = {**step.script.variables, **setting.knobs.get("variables", {}), **preload.variables(setting.preload)}
    threads = setting.threads or None  # 0: as the program sets them
    changed = replace(step.script, heap=setting.heap, threads=threads, variables=variables, seconds=seconds)
    return replace(changed, trials=step.trials)


def before(step: Step, seconds: float, say: Say, arrays: Path) -> BaselineProfile:
    """Watch the unchanged program's steps for `seconds`. Raises SuiteError."""
    with place_of() as (folder, streams):
        (recording,) = watch([script(step, seconds)], folder, streams, say, lambda recordings: None)
    breakdown, work = taken_apart(recording, 0.0, Ceilings(None, None)), work_of(recording.called)
    faults, error, system = _paging(step, say, recording.program.get("peak", 0))
    cells: dict[Key, float] = {((cell.row,), cell.column): cell.a for cell in breakdown.cells}
    process = recording.processes[-1]
    side = Side(Entry(step.framework, step.setting))
    return BaselineProfile(
        symbols(process),
        "",
        {},
        faults,
        error,
        _identity(recording),
        side,
        breakdown.step["a"],
        system,
        cells,
        dict(_rows(work)),
        spread=spread(process.levels.get("P0", [])),
        edits=edits(breakdown),
    )


def _paging(step: Step, say: Say, peak: int) -> tuple[float, float, float]:
    """Return page faults of an untraced step, their error, and its system seconds, in several processes.

    Faults are a state of a process: its heap's layout decides, and a tracer's freed memory lessens them. The error is
    that of a difference of so many processes from two others, by Student's t, in units of a normal error."""
    with ThreadPoolExecutor(max(1, min(cores(), PROCESSES, room_for(peak)))) as pool:
        pages = list(pool.map(lambda _: _process_paging(step, say), range(PROCESSES)))
    faults = [x for x, _ in pages]
    spread = stdev(faults) * math.sqrt(1 / PROCESSES + 1 / judged.UNCHANGED)
    return fmean(faults), FEW_PROCESSES * spread, fmean(x for _, x in pages)


def _process_paging(step: Step, say: Say) -> tuple[float, float]:
    """Return page faults and system seconds of a step in one process of the unchanged program."""
    with ExitStack() as stack:
        look = _observed(Plain, step, ROUNDS, stack, say)
        look.end()
    return fmean(look.watched.faulted["P0"]), fmean(look.watched.system)


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


class Plain(PlainObserver):
    """A program of which only plain (unwatched) steps are timed."""

    gone: str | None = None  # how the program ended by itself, if it did

    def round(self, number: int, order: random.Random) -> None:
        self.seen = Watched(rounds=[number] * self.count)
        try:
            self.last = self.undisturbed(self.count)
            self.level("P0", self.plain(self.last))
            self.unread.append(self.seen)
        except Ended as end:
            self.gone = ends.late(end)

    def timed(self) -> dict[str, float]:
        """Return the last round as a block of an entry."""
        return {"wall": self.last.seconds(False), "cpu": self.last.seconds(True), "blocked": 0.0}


def started(
    kind: type[Watching], source: Script, folder: Path, streams: tuple[IO[bytes], IO[bytes]], stack: ExitStack, say: Say
) -> Watching:
    """Start a program; return its untraced observer after the first steps. Raises SuiteError, Ended."""
    program = Program(source, folder, *streams)
    stack.callback(program.close)
    look = kind(source, program, say)
    with look.record_end():
        if kind is not Plain:
            look.sample(folder, stack)
        look.begin()
    look.torch = False
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


@contextmanager
def place_of() -> Iterator[tuple[Path, tuple[IO[bytes], IO[bytes]]]]:
    """Yield a temporary folder, and null streams for the output of programs that run at once."""
    with tempfile.TemporaryDirectory(prefix="kernelgap-whatif-") as name, open(os.devnull, "wb") as nowhere:
        yield Path(name), (nowhere, nowhere)


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
    at_once = max(1, room_for(identity.get("peak", 0)) - judged.UNCHANGED)
    groups = [foreseen[i : i + at_once] for i in range(0, len(foreseen), at_once)]
    if len(groups) > 1:
        say(f"memory has room for {counted(at_once, 'change')} at once, so changes are timed in {len(groups)} groups")
    timed: list[PredictedChange] = []
    for group in groups:
        seconds = step.plan.seconds * len(group) / len(foreseen)
        timed += _time(replace(step, plan=replace(step.plan, seconds=seconds)), group, file, say, hopeless)
    return timed


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
        going = [look for _, look in looks]
        for turn in rounds.in_turns(going, step.plan.seconds, random.Random(step.plan.seed), step.plan.fewest):
            seconds = turn.seconds
            _progress(step, turn, say)
            for entry, look in looks:
                if look in going and look.gone is None:
                    entry.blocks.append((0, turn.number, look.timed()))
            if hopeless is not None:
                network_step.drop((unchanged, twin), changed, hopeless)
            going[:] = [look for entry, look in looks if not entry.ended and look.gone is None]
            controls = [look for entry, look in looks if entry in (unchanged, twin)]
            if any(look.gone for look in controls) or all(look in controls for look in going):
                break  # there is nothing to compare any more, or nothing to compare it with
        for entry, look in looks:
            if look.gone:
                say(f"{entry.change or 'unchanged'}: {look.gone}; its earlier rounds count")
    taken = {entry.change or "as it is": results.times(entry) for entry, _ in looks}
    file.append(Note(TOPIC, {"steps": taken, "seconds": seconds}))
    return judged.recorded(foreseen, entries, file, None, choosing)


def _progress(step: Step, turn: rounds.Turn, say: Say) -> None:
    """Report progress after rounds 1, 2, 4, …, and after the first round warn if the budget is too small."""
    if is_reported(turn.number):
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
    """Start and settle all programs in parallel; return those that run; failed entries get a reason."""

    def settled(entry: Entry, step: Step) -> Plain | None:
        what = "control run" if entry.change == TWIN else entry.change or "unchanged"
        say(f"starting {step.plan.network.name}, {what}")
        source = script(step, step.plan.seconds)
        try:
            look = started(Plain, source, folder, streams, stack, lambda text: say(f"{what}: {text}"))
            with look.record_end():
                look.settle()
        except (SuiteError, Ended) as error:
            entry.status, entry.reason = "failed", str(error)
            return None
        entry.setting = replace(entry.setting, threads=look.recording.threads)
        return look

    pool = stack.enter_context(ThreadPoolExecutor(cores()))  # outlives the programs, which end with their threads
    looks = list(pool.map(settled, entries, steps))
    return [(entry, look) for entry, look in zip(entries, looks, strict=True) if look is not None]
