"""Prediction of a network's step: watch it unchanged, observe it changed, time both in turns."""

from __future__ import annotations

import math
import os
import random
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import stdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import macro.explaining.rows as rows_of
from kernels.devices.cpu import cores
from kernels.errors import LaunchError
from macro import frameworks
from macro.changes.base import CONFIDENCE, FAULTS, FUNCTIONS, BaselineProfile, ProcessSnapshot, Step
from macro.equality import gate
from macro.equality.answer import takes
from macro.explaining.attribute import attribute, shared
from macro.explaining.gap import mean
from macro.predicting import judged
from macro.predicting.judged import PredictedChange, Say
from macro.processes.ahead import places, room_for
from macro.timing import results, resume, turns
from macro.timing.entry import TWIN, Entry, Plan, Taken, is_reported
from macro.timing.results import times
from macro.watching import library_log, rounds, watch
from macro.watching.recording import Watched
from macro.watching.watch import NetworkObserver, Side
from reports import next_run, stats, units
from reports.prediction import LEFT_OUT

if TYPE_CHECKING:
    from reports.store import RunFile

MARGIN = 0.01
ROUNDS = 10  # of turns, at least

BUILT = ("batch", "layout", "made")  # keys of an identity that describe the built network
LEAST = 4  # rounds of watching the unchanged step, at least
PREFIX = "kernelgap-whatif-"  # of temporary folders' names


def before(step: Step, seconds: float, say: Say, arrays: Path, trials: Sequence[str]) -> BaselineProfile:
    """Watch the unchanged step for `seconds`; `arrays`: the folder of its inputs. Raises SuiteError.

    Networks have no `trials`."""
    plan, side = replace(step.plan, seconds=seconds), Side(Entry(step.framework, step.setting))
    with ExitStack() as stack:
        look = watch.start(plan, side, arrays, stack, say)
        look.costs, process, settled = False, Watched(), look.settled()
        for turn in rounds.in_turns([look], seconds, random.Random(plan.seed), LEAST):
            if is_reported(turn.number):
                progress = units.counted(turn.number, "round")
                say(f"observing {step.framework.name}: {progress}, {turn.seconds:.0f} of {seconds:.0f} s")
            if turn.read:
                _add(process, look)
        _add(process, look)
        about, large = started_with(look.process.pid), huge(look.process.pid)
        side.processes = [process]
        side.logged = library_log.logged(plan, side.entry, arrays, say)
    by_name = rows_of.rows(plan.network, plan.batch)
    group = rows_of.groups((span["rows"] for span in process.spans), by_name)
    attribution = shared(attribute(process, group, step.setting.threads), group, by_name)
    # System time is counted in coarse ticks, so the time per page fault is the mean over all plain steps.
    system, faults = settled.system + process.system, settled.faults + process.faults
    cells = {key: mean(taken) for key, taken in attribution.cells.items()}
    return BaselineProfile(
        symbols(process),
        *about,
        *steady(settled.faults),
        _identity(side),
        side,
        mean(process.levels["P0"]),
        mean(settled.faults) * sum(system) / sum(faults) if sum(faults) else mean(system),
        cells,
        by_name,
        large,
        spread(process.levels["P0"]),
    )


def fitted(step: Step, changes: int, before: BaselineProfile) -> Step:
    """Return the step: the processes of a network are started in groups."""
    return step


def after(step: Step, say: Say, stack: ExitStack, looks: Sequence[str], arrays: Path | None) -> ProcessSnapshot:
    """Start the changed step's process and observe what `looks` names, in a few steps. Raises SuiteError.

    `arrays`: the folder of its inputs if they equal the unchanged step's, else None; `stack` ends the process."""
    side, folder = Side(Entry(step.framework, step.setting)), stack.enter_context(TemporaryDirectory(prefix=PREFIX))
    process = watch.begun(step.plan, side, arrays or Path(folder), stack, say)
    faults, functions = (math.nan, math.nan), dict[str, int]()
    if looks:
        look = watch.NetworkObserver(step.plan, side.entry, process)
        if FAULTS in looks:
            faults = steady(look.faulted_alike())
        if FUNCTIONS in looks:
            look.attach(process.pid, Path(folder), stack)
            functions = symbols(look.functions())
    return ProcessSnapshot(functions, *started_with(process.pid), *faults, _identity(side))


def steady(faults: Sequence[float]) -> tuple[float, float]:
    """Return the mean page faults of a plain step, and their standard error."""
    return mean(faults), stdev(faults) / len(faults) ** 0.5 if len(faults) > 1 else 0.0


def spread(seconds: Sequence[float]) -> float:
    """Return the error in seconds of one round of a plain step, at CONFIDENCE; 0 with too few rounds."""
    import numpy as np

    if len(seconds) < LEAST:
        return 0.0
    trimmed = stats.TRIMMED if len(seconds) >= stats.FEWEST else 0.0
    estimate = stats.estimate(np.array(seconds), trimmed, independent=True)
    return estimate.half(1 - CONFIDENCE) * math.sqrt(len(seconds))


def _add(process: Watched, look: NetworkObserver) -> None:
    for part in look.read():
        process.add(part)


def symbols(process: Watched) -> dict[str, int]:
    """Count samples by function. Raises LaunchError if there are none."""
    if not process.samples:
        raise LaunchError("perf recorded no samples of the step")
    return Counter(sample.symbol for sample in process.samples)


def _identity(side: Side) -> dict[str, Any]:
    """Return the identity that the process reported, with batch, layout and flags of the network it built."""
    return {**side.entry.identity, **{name: side.entry.built.get(name) for name in BUILT}}


def _unbuilt(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return a process's identity without the keys that describe the built network."""
    return {name: value for name, value in identity.items() if name not in BUILT}


def free_cores(step: Step, changed: Sequence[Step], identity: Mapping[str, Any]) -> list[list[int]]:
    """Return sets of cores on which changed steps can be observed in parallel, a list of cores each.

    There is a single set of all cores for frameworks that time kernels as they build, and if memory is too small."""
    every = places(step.setting.threads or cores())
    most = max(takes(x.plan.network, x.plan.batch) for x in (step, *changed))
    fit = 1 if step.framework.chooses else room_for(most)
    return every if fit >= len(every) else [sorted(os.sched_getaffinity(0))]


def started_with(pid: int) -> tuple[str, dict[str, str]]:
    """Return a process's memory map as text, and its environment; empty if the system denies access."""
    texts = []
    for name in ("maps", "environ"):
        try:
            texts.append(Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace"))
        except OSError:
            texts.append("")
    pairs = (line.partition("=") for line in texts[1].split("\0") if line)
    return texts[0], {name: value for name, _, value in pairs}


def huge(pid: int) -> float | None:
    """Return the share of a process's anonymous memory in huge pages, or None if it cannot be read."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    except OSError:
        return None
    sizes = {name: int(size) for name, size in re.findall(r"^(Anonymous|AnonHugePages):\s+(\d+) kB", rollup, re.M)}
    return sizes.get("AnonHugePages", 0) / sizes["Anonymous"] if sizes.get("Anonymous") else None


def make(
    step: Step,
    foreseen: Sequence[PredictedChange],
    file: RunFile,
    say: Say,
    folder: Path,
    identity: Mapping[str, Any],
    hopeless: float | None,
) -> list[PredictedChange]:
    """Time changes in turns with the unchanged step; record and return them with their measurements.

    `folder`: of the steps' inputs; `identity`: as an unchanged process reported it; `hopeless`: a share of the step:
    changes that certainly save less are left out after SOON rounds, without a verdict; None: all changes stay."""
    twin = Entry(frameworks.find(f"{step.framework.name}~b"), step.setting, change=TWIN, identity=_unbuilt(identity))
    unchanged = Entry(step.framework, step.setting, identity=_unbuilt(identity))
    changed = [entered(step, x.changed, x.names, x.identity) for x in foreseen]
    for entry in (twin, unchanged, *changed):
        entry.warm = foreseen[0].prediction.step  # an estimate until its process has started
    end = partial(drop, (unchanged, twin), changed, hopeless) if hopeless is not None else lambda: None
    entries, choosing = (unchanged, twin, *changed), hopeless is not None
    with judged.kept(foreseen, entries, file, choosing):
        contest = _take(step.plan, entries, file, say, folder, end)
    return judged.recorded(foreseen, entries, file, contest, choosing)


def entered(step: Step, changed: Step, names: Sequence[str], identity: Mapping[str, Any]) -> Entry:
    """Return the entry of a changed step, with the `names` of its changes and the identity it reported."""
    return Entry(
        changed.framework,
        changed.setting,
        identity=_unbuilt(identity),
        change="+".join(names),
        again=_again(step, names),
        batch=changed.plan.batch if changed.plan.batch != step.plan.batch else None,
    )


def _again(step: Step, names: Sequence[str]) -> str:
    """Return the `whatif` command that times these changes again."""
    plan, setting = step.plan, step.setting
    line = f"python -m macro whatif {plan.named} {shlex.quote(step.framework.name)} {shlex.join(names)}"
    line += f" --batch {plan.batch} --phase {plan.phase} --threads {setting.threads} --heap {setting.heap}"
    variables = setting.knobs.get("variables", {})
    return line + "".join(f" --set {shlex.quote(f'{name}={value}')}" for name, value in variables.items())


def drop(unchanged: Sequence[Entry], changed: Sequence[Entry], hopeless: float) -> None:
    """Stop timing changes that save less than `hopeless` of a step; stop all once no change is left.

    The difference of the unchanged step and its control run is added to each saving first."""
    steps = [seconds for entry in unchanged for seconds in times(entry)]
    step = sum(steps) / max(1, len(steps))
    first, *twins = unchanged
    apart = [difference for twin in twins if (difference := judged.difference(twin, (first,), judged.SOON))]
    luck = max((abs(difference.center) for difference in apart), default=0.0)
    for entry in changed:
        difference = judged.difference(entry, unchanged, judged.SOON)
        if difference is not None and difference.center - difference.half(1 - CONFIDENCE) - luck > -hopeless * step:
            rounds = units.counted(len(entry.blocks), "round")
            entry.ended = f"{LEFT_OUT} {rounds}, in which the change saved less than {units.percent(100 * hopeless)}"
    if all(entry.ended or entry.status != "ok" for entry in changed):
        for entry in unchanged:
            entry.ended = "no changed step is left to compare"


def _take(
    plan: Plan, taking: Sequence[Entry], file: RunFile, say: Say, folder: Path, end: Callable[[], None]
) -> str | None:
    """Time entries in turns, resumed from the file; return the recorded contest's name, None if none ran."""
    name = results.changed_name(plan, taking)
    by_name = {results.name(plan, entry): entry for entry in taking}
    earlier = resume.rounds(file.run, name)
    began, before = time.monotonic(), resume.spent(earlier, plan.fewest)
    seconds = gate.refuse_unequal(plan, taking, folder, say)
    if all(entry.status != "ok" for entry in taking if entry.change not in ("", TWIN)):
        return None  # no changed step is left to compare
    resume.restore(by_name, earlier)
    if earlier:
        end()  # changes that had been left out stay so

    def keep(taken: Taken) -> None:
        resume.keep(file, name, by_name, taken)
        end()

    seconds["measuring"] = before + turns.take(resume.left(plan, earlier), taking, folder, say, keep)
    seconds["wall"] = before + time.monotonic() - began
    if name not in [x.contest for x in file.run.contests]:
        record = results.changed(plan, taking, MARGIN, seconds)
        file.append(next_run.foreseen(record, next_run.spreads(file.run.environment)))
    return name
