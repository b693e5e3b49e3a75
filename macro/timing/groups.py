"""Processes that are in memory at once: as many as fit in it, and with each group the reference, by which those of
different groups are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from kernels.devices.cpu import memory
from kernels.errors import SuiteError
from macro.timing.entry import HANGS, LONG, WARM, Entry, Plan, begin
from reports.units import counted

BLOCK = 0.2  # seconds of steps in a block, at least
ROOM = 0.8  # of the memory that is free when the first of a group starts
REFERENCE = "pytorch"


def reference(entries: Sequence[Entry]) -> Entry:
    """PyTorch, as it stands first in those that can run; without it the first of them."""
    running = [entry for entry in entries if entry.status == "ok"] or entries
    return next((entry for entry in running if entry.framework.name == REFERENCE), running[0])


def fill(
    plan: Plan,
    shared: Entry,
    wanted: Sequence[Entry],
    files: dict[str, str],
    folder: Path,
    stack: ExitStack,
    say: Callable[[str], None],
) -> tuple[list[Entry], list[Entry]]:
    """Start processes in the order wanted, the `shared` one among them, until the next one may no longer fit beside
    them: by what each had in memory before, or else the most that any had. Those that run, and those that are left."""
    room, alive = ROOM * memory(), list[Entry]()
    for i, entry in enumerate(wanted):
        if entry is not shared and not _fits(entry, alive, shared, max(one.peak for one in wanted), room):
            left = [one for one in wanted[i:] if one is not shared]
            say(f"{counted(len(left), 'framework')} of {len(wanted)} left for another group: memory is full")
            if shared in wanted[i:] and _start(plan, shared, files, folder, stack, say):
                alive.append(shared)
            return alive, left
        if _start(plan, entry, files, folder, stack, say):
            alive.append(entry)
    return alive, []


def _fits(entry: Entry, alive: Sequence[Entry], shared: Entry, most: int, room: float) -> bool:
    """One beside the shared one always has to."""
    others = [one for one in alive if one is not shared]
    held = [*others, shared] if shared.status == "ok" else others
    return not others or sum(one.peak or most for one in [*held, entry]) <= room


def _start(
    plan: Plan, entry: Entry, files: dict[str, str], folder: Path, stack: ExitStack, say: Callable[[str], None]
) -> bool:
    """Start and warm an entry's process, and choose how many steps make a block; whether that worked."""
    say(f"starting {entry.framework.name}")
    began = time.monotonic()
    try:
        entry.process = begin(plan, entry, entry.setting, files, folder, stack)
        entry.setup.append(time.monotonic() - began)
        warm = entry.process.ask(HANGS * 5, "steps", do="steps", phase=plan.phase, count=WARM)
    except SuiteError as error:
        entry.fail(error)
        return False
    step = max(min(warm["wall_ns"]) * 1e-9, 1e-9)
    entry.warm = step
    entry.count, entry.long = max(1, round(BLOCK / step)), step >= LONG
    entry.peak = max(entry.peak, int(warm["peak_bytes"]))
    return True
