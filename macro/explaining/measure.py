"""Measuring an explanation: watch rounds, append them to the run file, resume, make the document."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kernels.errors import SuiteError, UsageError, stop_code
from macro.explaining import document
from macro.timing.entry import FEWEST, Plan
from macro.timing.resume import left, spent
from macro.watching import kg, recording, resume, watch
from macro.watching.recording import Recording, Round
from macro.watching.watch import Side
from reports import attribution, store
from reports.record import Note, Run

MESSAGE = ("kind", "seq", "t_mono_ns")  # keys of an agent's report that belong to its transport


class Kept:
    """The rounds that have ended, of this start and of resumed ones, appended to the run file."""

    def __init__(
        self, plan: Plan, sides: Sequence[Side], file: store.RunFile, say: Callable[[str], None] | None
    ) -> None:
        """Restore the rounds that the run file holds. Raises UsageError if the file holds other results."""
        resume.refuse_others(file)
        self.plan, self.sides, self.file, self._say = plan, sides, file, say
        self.rounds, self.full, self._due = resume.rounds(file.run), False, FEWEST
        resume.restore(sides, self.rounds)

    def keep(self, rounds: Sequence[Round]) -> None:
        """Add ended rounds; report a preliminary answer each time that the number of rounds has doubled."""
        self.rounds += rounds
        if self.file.path:
            for x in rounds:
                self.append(resume.note(x))
        if self._say and self.count() >= self._due and not self._last(rounds[-1]):
            self.fill()
            self._due = 2 * self.count()
            plan = replace(self.plan, generations=len(self.sides[0].processes))
            self._say(document.so_far(plan, self.sides))

    def _last(self, latest: Round) -> bool:
        """Return whether this round is the plan's last, so that the document follows."""
        return latest.ended and sum(pair.ended for pair in recording.pairs(self.rounds)) >= self.plan.generations

    def append(self, note: Note) -> None:
        """Append to the run file; once the disk is full, warn and watch on without appending."""
        try:
            if not self.full:
                self.file.append(note)
        except store.Unwritable as error:
            print(f"macro explain: {str(error).partition(';')[0]}: later rounds are not kept", file=sys.stderr)
            self.full = True

    def count(self) -> int:
        """Return the number of rounds per side that count for the document."""
        return sum(pair.number + 1 for pair in recording.counting(recording.pairs(self.rounds)))

    def fill(self) -> None:
        """Set each side's processes to those whose rounds count."""
        for number, side in enumerate(self.sides):
            side.processes = recording.processes(self.rounds, number)


def finished(run: Run) -> Note | None:
    """Return a run's last explanation that was not stopped early, or None."""
    notes = [note for note in run.notes if note.topic == attribution.TOPIC and not note.data.get("stopped")]
    return notes[-1] if notes else None


def measure(kept: Kept, kernels: bool, say: Callable[[str], None]) -> tuple[Note, int]:
    """Watch the plan's remaining rounds; return the document of all rounds that count, and the exit code.

    If interrupted, or if a process fails, the document covers the ended rounds; without any, raises the cause."""
    taken, began, stopped, code = recording.pairs(kept.rounds), time.monotonic(), None, 0
    if count := kept.count():
        say(f"{kept.file.path} holds {count} rounds of each side, which count; the remaining rounds are watched now")
    try:
        with tempfile.TemporaryDirectory(prefix="kernelgap-explain-") as folder:
            watch.take(left(kept.plan, taken), kept.sides, Path(folder), say, kept.keep)
    except (KeyboardInterrupt, SystemExit, SuiteError) as stop:
        if not kept.count():
            raise
        stopped, code = (str(stop), 1) if isinstance(stop, SuiteError) else ("interrupted", stop_code(stop))
        print(f"macro explain: {stopped}; {_summary(kept)}", file=sys.stderr)
    kept.fill()
    plan, seconds = replace(kept.plan, generations=len(kept.sides[0].processes)), time.monotonic() - began
    explanation = document.explain(plan, kept.sides, spent(taken) + seconds, kernels and not code, stopped)
    kept.append(note := attribution.note(explanation, stopped))
    return note, code


def _summary(kept: Kept) -> str:
    processes = len(recording.counting(recording.pairs(kept.rounds)))
    plural = "es" * (processes > 1)
    where = f"; kept in {kept.file.path}, --resume continues" if kept.file.path else "; not kept without -o FILE"
    return f"explained from {kept.count()} rounds of {processes} process{plural} of each{where * (not kept.full)}"


def recording_of(plan: Plan, side: Side) -> Recording:
    """Return the recording of a side's processes, with the facts about the program and its setting."""
    entry = side.entry
    about = {
        "script": f"{plan.network.name} {entry.framework.name}",
        "arguments": ["--batch", str(plan.batch), "--phase", plan.phase],
        "interpreter": "",
        "heap": entry.setting.heap,
        "threads": entry.setting.threads,
        "step": f"this suite's loop, batch {plan.batch}",
    }
    facts = {name: value for name, value in entry.identity.items() if name not in MESSAGE}
    return Recording({**facts, **about}, list(side.processes))


def keep_recordings(plan: Plan, sides: Sequence[Side], run_file: Path, say: Callable[[str], None]) -> bool:
    """Write each side's recording beside the run file, replacing older ones; return False if that fails."""
    for i, side in enumerate(sides):
        path = kg.beside(run_file, i, len(sides))
        try:
            kg.write(recording_of(plan, side), path)
        except UsageError as error:
            say(f"macro explain: {error}")
            return False
        say(f"recording: {path}")
    return True
