"""Changes of a user's own program made: plain steps of all its processes in turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kernels.errors import SuiteError
from macro.changes.base import Step
from macro.predicting import judged, made
from macro.predicting.foreseen import Foreseen
from macro.predicting.own import Say, place_of, script, started
from macro.timing.entry import TWIN, Entry
from macro.watching import ends, rounds
from macro.watching.ends import Ended
from macro.watching.program import Look
from macro.watching.recording import Watched
from reports.record import Note
from reports.units import counted

if TYPE_CHECKING:
    from reports.store import RunFile

TOPIC = "turns"


def make(
    step: Step, foreseen: Sequence[Foreseen], file: RunFile, say: Say, hopeless: float | None = None
) -> list[Foreseen]:
    """All of these in turns with the unchanged program and another of it; as macro.predicting.made."""
    unchanged, twin = Entry(step.framework, step.setting), Entry(step.framework, step.setting, change=TWIN)
    changed = [Entry(step.framework, one.changed.setting, change=one.words) for one in foreseen]
    steps = [step, step, *(one.changed for one in foreseen)]
    seconds = 0.0
    with place_of() as (folder, streams), ExitStack() as stack:
        looks = _all([unchanged, twin, *changed], steps, folder, streams, stack, say)
        going = [look for _, look in looks]
        for turn in rounds.in_turns(going, step.plan.seconds, random.Random(step.plan.seed), step.plan.fewest):
            seconds = turn.seconds
            if not turn.number & turn.number - 1:  # 1, 2, 4, 8 …
                say(f"{counted(turn.number, 'round')}, {turn.seconds:.0f} of {step.plan.seconds:.0f} s")
            for entry, look in looks:
                if look in going and look.gone is None:
                    entry.blocks.append((0, turn.number, look.block()))
            if hopeless is not None:
                made.drop((unchanged, twin), changed, hopeless)
            going[:] = [look for entry, look in looks if not entry.ended and look.gone is None]
            whole = [look for entry, look in looks if entry in (unchanged, twin)]
            if any(look.gone for look in whole) or all(look in whole for look in going):
                break  # there is nothing to compare any more, or nothing to compare it with
        for entry, look in looks:
            if look.gone:
                say(f"{entry.change or 'as it is'}: {look.gone}; what was timed until then counts")
    taken = {entry.change or "as it is": [block["wall"] for _, _, block in entry.blocks] for entry, _ in looks}
    file.append(Note(TOPIC, {"steps": taken, "seconds": seconds}))
    told = [
        replace(one, told=judged.measured(one.told, unchanged, twin, entry, None, hopeless is not None))
        for one, entry in zip(foreseen, changed, strict=True)
    ]
    for one in told:
        file.append(one.told)
    return told


def _all(
    entries: Sequence[Entry],
    steps: Sequence[Step],
    folder: Path,
    streams: tuple[IO[bytes], IO[bytes]],
    stack: ExitStack,
    say: Say,
) -> list[tuple[Entry, Plain]]:
    """All of them started and settled; one that fails has its reason, and the others go on."""
    looks: list[tuple[Entry, Plain]] = []
    for entry, one in zip(entries, steps, strict=True):
        say(f"starting {one.plan.network.name}, {entry.change or 'as it is'}")
        try:
            look = started(Plain, script(one, one.plan.seconds), folder, streams, stack, say)
            with look.told():
                look.settle()
            looks.append((entry, look))
        except (SuiteError, Ended) as error:
            entry.status, entry.reason = "failed", str(error)
    return looks


class Plain(Look):
    """A program of which only plain steps are timed; `gone`: how it ended before it was asked to."""

    gone: str | None = None

    def settle(self) -> None:
        """Without a tracer."""
        self.torch = False
        super().settle()

    def round(self, number: int, order: random.Random) -> None:
        self.seen = Watched(rounds=[number] * self.count)
        try:
            self._p0()
        except Ended as end:
            self.gone = ends.late(end)

    def block(self) -> dict[str, float]:
        """Of the last round, as an entry has it."""
        seconds = self.seen.levels["P0"][-1]
        return {"wall": seconds, "cpu": seconds, "blocked": 0.0}
