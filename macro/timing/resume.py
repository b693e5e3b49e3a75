"""Rounds as notes in the run file, written as they end, and how a resumed run continues from them.

A killed run's processes are gone, so a resumed run measures the rest in new generations. A killed generation with
enough rounds counts like an ended generation; the rounds of a shorter generation are kept but not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from kernels.errors import UsageError
from macro.timing.entry import FEWEST, Entry, Plan, Taken
from reports.record import Note

if TYPE_CHECKING:
    from reports.record import Run
    from reports.store import RunFile

TOPIC = "round"
BLOCK = frozenset(
    ("wall", "cpu", "blocked", "system", "faults", "voluntary", "involuntary", "foreign", "canary", "peak", "fma")
)  # keys that results need of a block


@dataclass(frozen=True)
class Row:
    """The state of an entry after a round."""

    status: str
    reason: str | None
    count: int
    setup: tuple[float, ...]
    block: dict[str, Any] | None  # of this round; None if the entry had no block in it


@dataclass(frozen=True)
class Round(Taken):
    """A note's data: an ended round, and the entries' state after it, by the names of their results."""

    contest: str
    entries: dict[str, Row]


def keep(file: RunFile, contest: str, entries: Mapping[str, Entry], taken: Taken) -> None:
    """Append a round to the run file, on disk when this returns; `entries`: by the names of their results."""
    rows = {name: _row(entry, taken) for name, entry in entries.items()}
    file.append(Note(TOPIC, asdict(Round(**vars(taken), contest=contest, entries=rows))))


def _row(entry: Entry, taken: Taken) -> Row:
    last = entry.blocks[-1] if entry.blocks else (None, None, None)
    block = last[2] if last[:2] == (taken.generation, taken.number) else None
    return Row(entry.status, entry.reason, entry.count, tuple(entry.setup), block)


def rounds(run: Run, contest: str) -> list[Round]:
    """Return a contest's rounds in a run, in order. Raises UsageError for rounds of another version."""
    import msgspec

    data = [note.data for note in run.notes if note.topic == TOPIC and note.data.get("contest") == contest]
    try:
        taken = [msgspec.convert(x, Round) for x in data]
    except msgspec.ValidationError as error:
        raise UsageError(f"-o: the file's rounds of {contest} cannot be read ({error}): name another file") from None
    if any(not row.block.keys() >= BLOCK for x in taken for row in x.entries.values() if row.block is not None):
        raise UsageError(f"-o: the file's rounds of {contest} are of an older version: name another file")
    return taken


def restore(entries: Mapping[str, Entry], taken: Sequence[Round]) -> None:
    """Restore the entries' state from rounds of the run file; a failed entry stays failed."""
    for round_ in taken:
        for name, row in round_.entries.items():
            entry = entries[name]
            entry.count, entry.setup = row.count, list(row.setup)
            # The last round of a generation may be noted twice, the second time with `ended`.
            kept = entry.blocks and entry.blocks[-1][:2] == (round_.generation, round_.number)
            if row.block is not None and not kept:
                entry.blocks.append((round_.generation, round_.number, row.block))
                entry.peak = max(entry.peak, int(row.block["peak"]))
            if row.status != "ok" and entry.status == "ok":
                entry.status, entry.reason = row.status, row.reason


def spent(taken: Sequence[Taken], fewest: int = FEWEST) -> float:
    """Return the seconds of generations that ended or have enough rounds: `fewest`, FEWEST at most."""
    least = min(fewest, FEWEST)
    return sum(last.seconds for last in _generations(taken) if last.ended or last.number + 1 >= least)


def left(plan: Plan, taken: Sequence[Taken]) -> Plan:
    """Return the plan of the remaining generations, numbered after those in `taken`."""
    last = _generations(taken)
    ended = sum(x.ended for x in last)
    first = max((x.generation + 1 for x in last), default=0)
    seconds = max(0.0, plan.seconds - spent(taken, plan.fewest))
    return replace(plan, seconds=seconds, generations=max(0, plan.generations - ended), first=first, ended=ended)


def _generations(taken: Sequence[Taken]) -> list[Taken]:
    """Return the last round of each generation."""
    return list({x.generation: x for x in taken}.values())
