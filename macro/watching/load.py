"""Processor time of a script, of what looks at it, and of everybody else: who had the cores while it ran."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from micro.worker.counters import Counters


class Load(NamedTuple):
    """Seconds in a block of plain steps."""

    ran: float  # processor time of the script
    queued: float  # its threads were runnable, and another task had the core
    others: float  # processor time of processes that are neither the script's nor this command's, before it too


def taken(blocks: Sequence[Load]) -> float | None:
    """Return the share of the script's processor time that others had; None for no blocks.

    Threads are queued behind their own process and its children too, so that others took no more than they ran.
    """
    if not blocks:
        return None
    ran, queued, others = map(sum, zip(*blocks, strict=True))
    lost = min(queued, max(0.0, others))
    return lost / (ran + queued) if ran + queued > 0 else 0.0


def others() -> float | None:
    """Return the seconds that this process's cores have worked so far, without it and its descendants.

    None where the system does not list children: a script's own time would count as that of others.
    """
    if not Path("/proc/thread-self/children").exists():
        return None
    return Counters.now().allowed - _descendants_time(os.getpid())


def _descendants_time(pid: int) -> float:
    return processor_time(pid) + sum(map(_descendants_time, children(pid)))


def processor_time(pid: int) -> float:
    """Return the seconds that a process has used so far, with its ended children; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Return the living children of a process, such as workers of a data loader; none where they are not listed."""
    pids: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has just ended
            pids += map(int, path.read_text().split())
    return pids
