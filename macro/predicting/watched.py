"""The unchanged step, watched, and one step of the changed one, observed for what it does, not timed."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from tempfile import TemporaryDirectory
from typing import Any

import macro.explaining.rows as rows_of
from kernels.errors import LaunchError
from macro.changes.base import CONFIDENCE, FAULTS, FUNCTIONS, Before, Seen, Step
from macro.explaining.attribute import Attribution, attribute
from macro.explaining.gap import mean
from macro.explaining.shared import shared
from macro.processes import job
from macro.timing.entry import Entry
from macro.watching import library_log, rounds, watch
from macro.watching.recording import Watched
from macro.watching.watch import Look, Side
from reports import stats, units

BUILT = ("batch", "layout", "made")
LEAST = 4  # rounds of the unchanged step
PREFIX = "kernelgap-whatif-"  # of a folder


def before(step: Step, seconds: float, say: Callable[[str], None], arrays: Path) -> Before:
    """Watch the unchanged steps for so long; `arrays`: the folder of their inputs. Raises SuiteError."""
    plan, side = replace(step.plan, seconds=seconds), Side(Entry(step.framework, step.setting))
    with ExitStack() as stack:
        files = job.write_arrays(plan.network, plan.batch, arrays)
        look = watch.start(plan, side, files, arrays, stack, say)
        look.costs, process, settled = False, Watched(), look.settled()
        for turn in rounds.in_turns([look], seconds, random.Random(plan.seed), LEAST):
            progress = units.counted(turn.number, "round")
            say(f"watching {step.framework.name}: {progress}, {turn.seconds:.0f} of {seconds:.0f} s")
            if turn.read:
                _add(process, look)
        _add(process, look)
        about, large = started_with(look.process.pid), huge(look.process.pid)
        side.processes = [process]
        side.logged = library_log.logged(plan, side.entry, files, arrays, say)
    attribution = _attributed(step, process)
    # The system counts its own time by ticks: that of a page fault is taken from all plain steps.
    system, faults = settled.system + process.system, settled.faults + process.faults
    cells = {key: mean(taken) for key, taken in attribution.cells.items()}
    return Before(
        symbols(process),
        *about,
        *steady(settled.faults),
        _identity(side),
        side,
        mean(process.levels["P0"]),
        mean(settled.faults) * sum(system) / sum(faults) if sum(faults) else mean(system),
        cells,
        rows_of.rows(plan.network, plan.batch),
        large,
        spread(process.levels["P0"]),
    )


def after(
    step: Step, say: Callable[[str], None], stack: ExitStack, looks: Sequence[str], arrays: Path | None = None
) -> Seen:
    """Run some steps of the changed step to observe it; none if `looks` is empty.
    Its equal work is not proven. `arrays`: the folder of its inputs, where another process has the same; `stack` ends
    its process. Raises SuiteError."""
    side, folder = Side(Entry(step.framework, step.setting)), stack.enter_context(TemporaryDirectory(prefix=PREFIX))
    files = job.write_arrays(step.plan.network, step.plan.batch, arrays or Path(folder))
    process = watch.begun(step.plan, side, files, Path(folder), stack, say)
    faults, functions = (math.nan, math.nan), dict[str, int]()
    if looks:
        look = watch.Look(step.plan, side.entry, process)
        if FAULTS in looks:
            faults = steady(look.faulted_alike())
        if FUNCTIONS in looks:
            look.sample(Path(folder), stack)
            functions = symbols(look.functions())
    return Seen(functions, *started_with(process.pid), *faults, _identity(side))


def steady(faults: Sequence[float]) -> tuple[float, float]:
    """Return the mean page faults of a plain step, and their standard error."""
    return mean(faults), stdev(faults) / len(faults) ** 0.5 if len(faults) > 1 else 0.0


def spread(seconds: Sequence[float]) -> float:
    """Return the error of one round of a plain step, at CONFIDENCE; 0 for fewer rounds than LEAST.
    It is worked out from the error of their mean, as that of a measurement is."""
    import numpy as np

    if len(seconds) < LEAST:
        return 0.0
    trimmed = stats.TRIMMED if len(seconds) >= stats.FEWEST else 0.0
    estimate = stats.estimate(np.array(seconds), trimmed, independent=True)
    return estimate.half(1 - CONFIDENCE) * math.sqrt(len(seconds))


def _add(process: Watched, look: Look) -> None:
    for part in look.read():
        process.add(part)


def _attributed(step: Step, process: Watched) -> Attribution:
    by_name = rows_of.rows(step.plan.network, step.plan.batch)
    group = rows_of.groups((span["rows"] for span in process.spans), by_name)
    return shared(attribute(process, group, step.setting.threads), group, by_name)


def symbols(process: Watched) -> dict[str, int]:
    """Count samples by the function that they were in. Raises LaunchError where there are none."""
    if not process.samples:
        raise LaunchError("perf took no samples of it")
    return Counter(sample.symbol for sample in process.samples)


def _identity(side: Side) -> dict[str, Any]:
    """Return the identity that the process reported, and from what it built its batch, layout and flags."""
    return {**side.entry.identity, **{name: side.entry.built.get(name) for name in BUILT}}


def started_with(pid: int) -> tuple[str, dict[str, str]]:
    """Return the files that a process has mapped, and its environment; empty where the system denies it."""
    texts = []
    for name in ("maps", "environ"):
        try:
            texts.append(Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace"))
        except OSError:
            texts.append("")
    pairs = (line.partition("=") for line in texts[1].split("\0") if line)
    return texts[0], {name: value for name, _, value in pairs}


def huge(pid: int) -> float | None:
    """Return the share of a process's anonymous memory in huge pages; None where the system denies it."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    except OSError:
        return None
    sizes = {name: int(size) for name, size in re.findall(r"^(Anonymous|AnonHugePages):\s+(\d+) kB", rollup, re.M)}
    return sizes.get("AnonHugePages", 0) / sizes["Anonymous"] if sizes.get("Anonymous") else None
