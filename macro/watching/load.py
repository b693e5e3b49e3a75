"""CPU time of a script and of other processes: how much of the cores' time the script lost to others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from micro.worker.counters import Counters

MOST = 0.9  # share of lost time that counts in a forecast


COUNTED = 1.0  # seconds of blocks for which ticks of the clock count what others used


class Load(NamedTuple):
    """CPU seconds of a script and of other processes during a block of plain steps."""

    ran: float  # processor time of the script
    queued: float  # waiting time of the script's threads, runnable while another task had the core
    others: float  # CPU time of processes outside the script and this command, also just before the block
    seconds: float = 0.0  # of the block, with what is just before it


def taken(blocks: Sequence[Load]) -> float | None:
    """Return the share of the script's runnable time that it lost to other processes; None without blocks.

    The time lost is at most the others' CPU time: threads also queue behind threads of their own process.
    """
    if not blocks:
        return None
    ran, queued, others, _ = map(sum, zip(*blocks, strict=True))
    lost = min(queued, max(0.0, others))
    return lost / (ran + queued) if ran + queued > 0 else 0.0


def company(blocks: Sequence[Load]) -> float | None:
    """Return the cores that other processes used beside the blocks; None if these are too short to tell."""
    seconds = sum(block.seconds for block in blocks)
    return max(0.0, sum(block.others for block in blocks)) / seconds if seconds >= COUNTED else None


def others() -> float | None:
    """Return the CPU seconds used so far on this process's cores by all but it and its descendants.

    None where the system does not list children: a script's CPU time would count as that of others.
    """
    if not Path("/proc/thread-self/children").exists():
        return None
    return Counters.now().allowed - _descendants_time(os.getpid())


def busy() -> float:
    """Return how many times as long work takes as on an idle machine; 1 where the system does not report it.

    The mean of two: how long this process has waited for a core, and the tasks that wanted one in the last minute."""
    try:
        ran, queued, _ = map(int, Path("/proc/self/schedstat").read_text().split())
        wanted = os.getloadavg()[0] + 1
    except (OSError, ValueError):
        return 1.0
    return ((ran + queued) / max(ran, 1) + max(1.0, wanted / (os.cpu_count() or 1))) / 2


def slowdown(blocks: Sequence[Load]) -> float:
    """Return how many times as long a script's steps take as on an idle machine."""
    return 1 / (1 - min(taken(blocks) or 0.0, MOST))


def _descendants_time(pid: int) -> float:
    return processor_time(pid) + sum(map(_descendants_time, children(pid)))


def processor_time(pid: int) -> float:
    """Return the CPU seconds of a process and its ended children so far; 0 if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Return the pids of a process's living children, such as loader workers; empty if none are listed."""
    pids: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has just ended
            pids += map(int, path.read_text().split())
    return pids
