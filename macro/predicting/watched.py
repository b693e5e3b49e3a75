"""The unchanged step watched, and one step of the changed one looked at for what it does, whose clocks nobody reads."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import macro.explaining.rows as rows_of
from macro.changes.base import Before, Seen, Step
from macro.explaining.attribute import Attribution, attribute
from macro.explaining.gap import mean
from macro.explaining.shared import shared
from macro.processes import job
from macro.timing.entry import Entry
from macro.watching import library_log, rounds, watch
from macro.watching.recording import Watched
from macro.watching.watch import Look, Side


def before(step: Step, seconds: float, say: Callable[[str], None]) -> Before:
    """Watch its steps for so long. Raises SuiteError."""
    plan, side = replace(step.plan, seconds=seconds), Side(Entry(step.framework, step.setting))
    with _started(step, side, say) as (look, folder):
        process, settled = Watched(), look.settled()
        for turn in rounds.in_turns([look], seconds, random.Random(plan.seed)):
            say(f"watching {step.framework.name}: {turn.number} rounds, {turn.seconds:.0f} of {seconds:.0f} s")
            if turn.read:
                _add(process, look)
        _add(process, look)
        about = started_with(look.process.pid)
        side.processes = [process]
        side.products = library_log.logged(plan, side.entry, job.files(plan.batch, folder), folder, say)
    found = _attributed(step, process)
    cells = {key: mean(taken) for key, taken in found.cells.items()}
    return Before(
        _symbols(process),
        *about,
        *steady(settled.faults),
        _said(side),
        side,
        mean(process.levels["P0"]),
        mean(settled.system),
        cells,
        rows_of.rows(plan.network, plan.batch),
    )


def after(step: Step, say: Callable[[str], None]) -> Seen:
    """One traced step of it, whose equal work nobody asks for. Raises SuiteError."""
    side = Side(Entry(step.framework, step.setting))
    with _started(step, side, say, proving=False) as (look, _):
        settled, process = look.settled(), look.once()
        about = started_with(look.process.pid)
    return Seen(_symbols(process), *about, *steady(settled.faults), _said(side))


@contextmanager
def _started(step: Step, side: Side, say: Callable[[str], None], proving: bool = True) -> Iterator[tuple[Look, Path]]:
    with tempfile.TemporaryDirectory(prefix="kernelgap-whatif-") as name, ExitStack() as stack:
        folder = Path(name)
        files = job.write_arrays(step.plan.network, step.plan.batch, folder)
        yield watch.start(step.plan, side, files, folder, stack, say, proving), folder


def steady(faults: Sequence[float]) -> tuple[float, float]:
    """Page faults of a plain step in the mean, and the standard error of that."""
    return mean(faults), stdev(faults) / len(faults) ** 0.5 if len(faults) > 1 else 0.0


def _add(process: Watched, look: Look) -> None:
    for one in look.read():
        process.add(one)


def _attributed(step: Step, process: Watched) -> Attribution:
    by_name = rows_of.rows(step.plan.network, step.plan.batch)
    group = rows_of.groups((span["rows"] for span in process.spans), by_name)
    return shared(attribute(process, group, step.setting.threads), group, by_name)


def _symbols(process: Watched) -> frozenset[str]:
    return frozenset(sample.symbol for sample in process.samples)


def _said(side: Side) -> dict[str, Any]:
    """What the process says of itself, and how many samples its steps have."""
    return {**side.entry.identity, "batch": side.entry.built.get("batch")}


def started_with(pid: int) -> tuple[str, dict[str, str]]:
    """The files that a process has mapped, and its environment; nothing where the system does not tell."""
    told = []
    for name in ("maps", "environ"):
        try:
            told.append(Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace"))
        except OSError:
            told.append("")
    pairs = (line.partition("=") for line in told[1].split("\0") if line)
    return told[0], {name: value for name, _, value in pairs}
