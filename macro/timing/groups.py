"""Groups of processes that fit in memory together; each has the reference, so that groups compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from kernels.devices.cpu import memory
from kernels.errors import SuiteError
from macro.timing.entry import ALIKE, HANGS, LONG, TWIN, WARM, Entry, Plan, begin
from reports.units import counted

BLOCK = 0.2  # seconds of steps in a block, at least
ROOM = 0.8  # usable share of the memory that is free before a group starts
REFERENCE = "pytorch"


def reference(entries: Sequence[Entry]) -> Entry:
    """Return the first PyTorch entry that can run, or else the first entry that can run."""
    running = [entry for entry in entries if entry.status == "ok"] or entries
    return next((entry for entry in running if entry.framework.name == REFERENCE), running[0])


def fill(
    plan: Plan,
    shared: Entry,
    wanted: Sequence[Entry],
    known: Sequence[Entry],
    folder: Path,
    stack: ExitStack,
    say: Callable[[str], None],
) -> tuple[list[Entry], list[Entry]]:
    """Start entries that fit in memory beside the `shared` entry; return those running, and those left.

    An entry's need of memory is estimated from its last process, or from the processes of `known` entries.
    """
    room, alive, left = ROOM * memory(), list[Entry](), list[Entry]()
    for entry in wanted:
        if entry is not shared and not _fits(entry, alive, shared, known, room):
            left.append(entry)
            continue
        say(f"starting {entry.framework.name}")
        if _begin(plan, entry, folder, stack) and _warm(plan, entry):
            alive.append(entry)
    if left:
        say(f"{counted(len(left), 'framework')} of {len(wanted)} deferred to another group: memory is full")
    return alive, left


def _fits(entry: Entry, alive: Sequence[Entry], shared: Entry, known: Sequence[Entry], room: float) -> bool:
    """Return whether an entry fits in memory; a single entry beside the shared entry always does."""
    others = [x for x in alive if x is not shared]
    held = [*others, shared] if shared.status == "ok" else others
    return not others or sum(_likely(x, known) for x in [*held, entry]) <= room


def _likely(entry: Entry, known: Sequence[Entry]) -> int:
    """Estimate an entry's bytes by its last process, its framework's with other threads, or the largest."""
    alike = [x.peak for x in known if x.framework == entry.framework and x.batch == entry.batch]
    return entry.peak or max(alike, default=0) or max(x.peak for x in known)


def alike(entries: Sequence[Entry], counted: float) -> None:
    """Set whether the first step of each entry's turn counts, the same for steps that are compared.

    The first step counts for steps of at least LONG seconds and ALIKE times the longest step where it does not count.
    Changed steps follow the unchanged step: the first step counts if that takes `counted` seconds or more.
    """
    if any(entry.change for entry in entries):
        unchanged = next((entry for entry in entries if entry.change in ("", TWIN)), entries[0])
        for entry in entries:
            entry.long = unchanged.warm >= counted
        return
    short = 0.0
    for entry in sorted(entries, key=lambda entry: entry.warm):
        entry.long = entry.warm >= max(LONG, ALIKE * short)
        short = short if entry.long else entry.warm


def _begin(plan: Plan, entry: Entry, folder: Path, stack: ExitStack) -> bool:
    """Start an entry's process; return whether that worked."""
    began = time.monotonic()
    try:
        entry.process = begin(plan, entry, entry.setting, folder, stack)
    except SuiteError as error:
        entry.fail(error)
        return False
    entry.setup.append(time.monotonic() - began)
    return True


def _warm(plan: Plan, entry: Entry) -> bool:
    """Run warm-up steps, which set the number of steps per block; return whether they succeeded."""
    assert entry.process is not None
    try:
        warm = [entry.process.ask(HANGS * 5, "steps", do="steps", phase=plan.phase, count=1) for _ in range(WARM)]
    except SuiteError as error:
        entry.fail(error)
        return False
    step = max(min(reply["wall_ns"][0] for reply in warm) * 1e-9, 1e-9)
    entry.warm = step
    entry.count = max(1, round(BLOCK / step))
    entry.peak = max(entry.peak, int(warm[-1]["peak_bytes"]))
    return True
