"""Notes of watched rounds in a run file, one per round, from which an explanation is resumed.

Killed processes count if they have enough rounds, as in macro/timing/resume.py; new processes get the remaining time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from kernels.errors import UsageError
from macro.timing.entry import Entry, Plan
from macro.watching.packed import Packed, packed, unpacked
from macro.watching.recording import Round
from macro.watching.watch import Side
from micro.command.environment import command_line
from reports.record import Note

if TYPE_CHECKING:
    from reports.record import Run
    from reports.store import RunFile

TOPIC = "watched"


def planned(plan: Plan, sides: Sequence[Side], kernels: bool) -> str:
    """Return the key of an explanation, without its budget; only a run file with an equal key is resumed."""
    network = json.dumps(plan.network.data(), sort_keys=True)
    words = [f"explain {network}", f"batch {plan.batch}", plan.phase, f"{plan.generations} processes"]
    words += [_side(side.entry) for side in sides]
    return ", ".join([*words, "kernels"] if kernels else words)


def _side(entry: Entry) -> str:
    setting = entry.setting
    knobs = json.dumps(setting.knobs, sort_keys=True, default=str)
    return f"{entry.framework.name} threads {setting.threads} heap {setting.heap} default {knobs}"


def note(round_: Round) -> Note:
    """Return a round as a note of a run file."""
    return Note(TOPIC, {**vars(round_), "watched": asdict(packed(round_.watched))})


def refuse_others(file: RunFile) -> None:
    """Raise UsageError for a run file without an explanation's key, such as an older version's."""
    environment = file.run.environment
    if environment.state.get("plan") is None:
        raise UsageError(
            f"-o {file.path}: written by `{environment.command}`, without rounds to resume; for "
            f"`{command_line()}`: name another file"
        )


def rounds(run: Run) -> list[Round]:
    """Return a run's watched rounds in the order taken. Raises UsageError if a round cannot be read."""
    import msgspec

    taken = list[Round]()
    for note in run.notes:
        if note.topic == TOPIC:
            try:
                round_ = msgspec.convert({**note.data, "watched": {}}, Round)
                watched = unpacked(msgspec.convert(note.data["watched"], Packed))
            except (msgspec.ValidationError, LookupError) as error:
                raise UsageError(f"-o: a round in the file cannot be read ({error}): name another file") from None
            taken.append(replace(round_, watched=watched))
    return taken


def restore(sides: Sequence[Side], taken: Sequence[Round]) -> None:
    """Restore the identity of each side from its latest process."""
    for round_ in taken:
        if round_.about:
            entry = sides[round_.side].entry
            entry.identity, entry.built = round_.about["identity"], round_.about["built"]
