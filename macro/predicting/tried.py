"""Trials of changes in several processes of an unchanged script: what each does to a step, and page faults.

What a change saves depends on a process: on where its blocks of memory lie, and on what it has in its caches. So it is
tried in more than one, and their spread is the prediction's error.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import fmean, median, stdev

from kernels.devices.cpu import cores
from kernels.errors import LaunchError
from macro.changes.base import ERRORS, Ratio, Step
from macro.changes.heaps import KEEP
from macro.predicting import judged
from macro.predicting.judged import Say
from macro.predicting.processes import Plain, place_of, script, started
from macro.processes.ahead import room_for
from macro.watching.ends import Ended

PROCESSES, T = 3, 2.92  # of the unchanged program; Student's t of two degrees, 90 %
ROUNDS, TURNS, LEAST = 3, 5, 2  # plain blocks first; turns of plain blocks and trials; turns that a process counts from
MOST, LONG = 4, 20.0  # times the seconds of trials, or seconds, that the fewest turns may take


@dataclass(frozen=True)
class Unchanged:
    """Observations of processes of the unchanged script."""

    faults: float  # of a plain step
    error: float  # that of a difference from so many other processes, in units of a normal error
    system: float  # seconds of a plain step in the operating system
    between: float  # error of a difference in the seconds of a step, of one process each, as a share of them
    tried: Mapping[str, Ratio | str]  # by trial: times of a step with and without it; or why it is not known


@dataclass
class _Process:
    """Observations of one process."""

    faults: float
    system: float
    step: float  # seconds
    ratios: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    failed: str = ""  # the trial that ended it


def unchanged(step: Step, names: Sequence[str], seconds: float, say: Say, peak: int) -> Unchanged:
    """Observe page faults, then make the trials, for `seconds` in all; `peak`: bytes of a process. Raises SuiteError.

    As many processes start at once as fit in memory; while one makes trials, the others wait. A process that a trial
    ends is replaced by one without this trial."""
    seen, lost, numbers = list[_Process](), dict[str, str](), itertools.count()
    while len(seen) < PROCESSES:
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(cores()))  # outlives the programs, which end with its threads
            count = min(PROCESSES - len(seen), room_for(peak))
            looks = list(pool.map(lambda _: _settled(step, say, stack), range(count)))
            for look in looks:
                process = _seen(look, [x for x in names if x not in lost], seconds / PROCESSES, next(numbers))
                if process.failed:
                    lost[process.failed] = process.reasons[process.failed]
                else:
                    seen.append(process)
            list(pool.map(lambda look: look.end(), looks))
    faults, steps = [x.faults for x in seen], [x.step for x in seen]
    error = T / ERRORS * stdev(faults) * math.sqrt(1 / PROCESSES + 1 / judged.UNCHANGED)
    between = T * stdev(steps) / fmean(steps) * math.sqrt(1 + 1 / judged.UNCHANGED)
    tried = {name: lost.get(name) or _together(name, seen) for name in names}
    return Unchanged(fmean(faults), error, fmean(x.system for x in seen), between, tried)


def _settled(step: Step, say: Say, stack: ExitStack) -> Plain:
    """Start a process of the unchanged program; return it with settled memory. Raises SuiteError, Ended."""
    look = started(Plain, script(step, 1.0), *stack.enter_context(place_of()), stack, say)
    with look.record_end():
        look.settle()
    return look


def _seen(look: Plain, names: Sequence[str], seconds: float, number: int) -> _Process:
    """Run plain blocks, the trials in turns, and last the trial that cannot be undone. Raises SuiteError.

    `number`: of the process, whose turns have an order of their own."""
    for at in range(ROUNDS):
        look.round(at, random.Random(0))
    if look.gone:
        raise LaunchError(look.gone)
    look.read()
    watched, program = look.watched, look.recording.program
    process = _Process(fmean(watched.faulted["P0"]), fmean(watched.system), median(watched.levels["P0"]))
    if look.block_seconds * (1 + len(names)) * (1 + TURNS) * PROCESSES > max(LONG, MOST * seconds * PROCESSES):
        process.reasons = dict.fromkeys(names, "its steps are long: trials of it need a longer --budget")
        return process
    try:
        look.trials([name for name in names if name != KEEP], seconds, TURNS, number)
        if KEEP in names and (ratio := look.kept(watched.levels["P0"], TURNS)):
            process.ratios[KEEP] = ratio
    except Ended as end:  # by itself: what was timed until then counts
        process.failed = look.trial if end.how == "failed" else ""
        process.reasons[process.failed] = end.reason
    blocks: dict[str, list[float]] = program.get("trials") or {"": []}
    plain = blocks.pop("")
    if len(plain) >= LEAST:
        process.ratios |= {name: median(x) / median(plain) for name, x in blocks.items() if len(x) >= LEAST}
    process.reasons |= program.get("refused") or {}
    return process


def _together(name: str, seen: Sequence[_Process]) -> Ratio | str:
    """Return the middle ratio of a trial in all processes, and their spread; or why it is not known."""
    ratios = [x.ratios[name] for x in seen if name in x.ratios]
    if len(ratios) < PROCESSES:
        reasons = (x.reasons.get(name) for x in seen)
        return next(filter(None, reasons), "the script ended before each process had tried it")
    middle, half = median(ratios), T * stdev(ratios) / math.sqrt(PROCESSES)
    return Ratio(middle, middle - half, middle + half)
