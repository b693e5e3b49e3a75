"""Contests of frameworks in a run file: proof of equal work, steps in turns, resuming stopped runs."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kernels.errors import UsageError, stop_code
from macro.timing.entry import Entry, Plan
from micro.planning.options import Outputs

if TYPE_CHECKING:
    from reports.store import RunFile


@contextmanager
def opened(
    outputs: Outputs, planned: Sequence[str] = (), devices: Sequence[str] = ("cpu",)
) -> Iterator[tuple[RunFile, Mapping[str, IO[str]]]]:
    """Open a command's outputs and yield its run file and a stream per document. Raises UsageError."""
    from kernels.devices import open_device
    from micro.command import environment as machine
    from micro.command.outputs import open_outputs
    from micro.command.session import open_run_file

    with ExitStack() as stack:
        streams = open_outputs(outputs, stack)
        environment = machine.environment([open_device(name) for name in devices], machine.command_line())
        file = open_run_file(outputs.output, environment, outputs.resume, planned)
        stack.callback(file.close)
        yield file, streams


def kept(
    name: str,
    outputs: Outputs,
    planned: Sequence[str],
    measure: Callable[[RunFile], None],
    devices: Sequence[str] = ("cpu",),
) -> int:
    """Open outputs, measure, report; return the exit code: 1 after a failed or wrong result, a signal's."""
    from micro.command.outputs import say

    with opened(outputs, planned, devices) as (file, streams):
        stopped = 0
        try:
            measure(file)
        except (KeyboardInterrupt, SystemExit) as stop:
            stopped = stop_code(stop)
            print(f"macro {name}: {_interrupted(file)}", file=sys.stderr)
        there = file.run.contests or file.run.predictions
        failed = say(file.run, outputs, streams) if there or not stopped else 0
    return stopped or failed or int(any(r.status in ("wrong", "failed") for r in file.run.results))


def _interrupted(file: RunFile) -> str:
    """Describe the results that a stopped run has kept, and how to resume it."""
    from macro.timing.resume import TOPIC
    from reports.units import counted

    rounds, predictions = sum(note.topic == TOPIC for note in file.run.notes), len(file.run.predictions)
    kept = [counted(n, what) for n, what in ((predictions, "prediction"), (rounds, "round")) if n]
    if not kept:
        return "interrupted before any result"
    program = any(not prediction.batch for prediction in file.run.predictions)  # a script cannot be resumed
    there = f"kept in {file.path}" + ", --resume continues" * (not program) if file.path else "not kept without -o FILE"
    return f"interrupted after {' and '.join(kept)}: {there}"


def contest(plan: Plan, entries: Sequence[Entry], margin: float, file: RunFile, say: Callable[[str], None]) -> None:
    """Prove equal work, time steps in turns and write the contest; resume or skip a contest in the file."""
    from macro.equality import gate
    from macro.timing import results, resume, turns
    from reports import next_run

    if done(plan, entries, file):
        return
    about = results.contest_name(plan)
    named = {results.name(plan, entry): entry for entry in entries}
    taken = resume.rounds(file.run, about)
    began, before = time.monotonic(), resume.spent(taken)
    with tempfile.TemporaryDirectory(prefix="kernelgap-macro-") as name:
        folder = Path(name)
        seconds = gate.refuse_unequal(plan, entries, folder, say)
        resume.restore(named, taken)
        keep = partial(resume.keep, file, about, named)
        seconds["measuring"] = before + turns.take(resume.left(plan, taken), entries, folder, say, keep)
    seconds["wall"] = before + time.monotonic() - began
    record = results.contest(plan, entries, margin, seconds)
    file.append(next_run.foreseen(record, next_run.spreads(file.run.environment)))


def done(plan: Plan, entries: Sequence[Entry], file: RunFile) -> bool:
    """Return whether the file holds the complete contest. Raises UsageError if its frameworks differ."""
    from macro.timing import results, resume

    contest, names = results.contest_name(plan), [results.name(plan, entry) for entry in entries]
    taken = resume.rounds(file.run, contest)
    finished = [[r.name for r in c.results] for c in file.run.contests if c.contest == contest]
    if any(held != names for held in [*finished, *(list(round_.entries) for round_ in taken)]):
        raise UsageError(
            f"-o {file.path}: holds {contest} of other frameworks or settings, from "
            f"`{file.run.environment.command}`: name another file"
        )
    return bool(finished)
