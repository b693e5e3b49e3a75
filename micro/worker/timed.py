"""Entries of a contest that are timed, and launches per sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from micro.planning.contest import WARM
from micro.worker import visits

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.launch import Bind, Launch
    from kernels.problem import Problem
    from kernels.variant import Variant

UNTOLD = 8  # kernels that a launch is assumed to enqueue per use if it does not report them
SLOWER = 4  # times as long as it must be a visit may be: then it has as many launches as the fastest rival's
GRAPH = 4096  # launches of a captured graph, which is one entry of a stream's queue however many they are


@dataclass(eq=False)
class Timed:
    """One timed entry: a case, or a part of a case."""

    problem: Problem
    variant: Variant[Any]
    bind: Bind
    case: int  # its case's position; −1 for a canary
    uses: int
    cold: tuple[str, ...] = ()
    data: str = "normal"
    launches: int = 1
    warm: int = WARM
    call: float = 0.0
    kernels: int = 0  # that one launch enqueues, of a device whose stream is held
    capturable: bool = False
    unheld: bool = False
    alone: int = 0  # its single launches that broke their hold
    sets: int = 1
    turn: int = 0
    entry: Any = None
    launch: Launch | None = None

    def seconds(self, compiled: bool) -> float:
        """Seconds of a sample, as far as its call is known.

        The compiled loop warms up by single calls, even if a launch is several."""
        return self.call * (self.launches + self.warm / (self.variant.times if compiled else 1))


def launches(device: Device, entry: Timed, visit: float, fastest: float, captured: bool) -> int:
    """Return the launches per sample: the fastest case's for all measured cases; separate for ceilings.

    Stepwise, a much slower case makes fewer, and a held stream at most as many as its queue takes, which a captured
    graph does not limit. A launch of more kernels than the queue takes is not held."""
    if device.kind.visit == "single":
        return 1
    wanted = math.ceil(visit / fastest)
    if device.kind.compiled:
        return max(1, wanted)
    if entry.cold:
        return 1
    wanted = min(wanted, math.ceil(SLOWER * visit / entry.call))
    if entry.capturable and captured:
        return max(1, min(GRAPH, wanted))
    entry.unheld = entry.unheld or entry.kernels > device.kind.queue
    return max(1, min(room(device, entry), wanted))


def room(device: Device, entry: Timed) -> int:
    """Return the number of launches that the stream's queue takes behind a hold."""
    return max(1, device.kind.queue // max(1, entry.kernels))


def without_overhead(
    device: Device, entries: Sequence[Timed], which: Sequence[int], timed: visits.Timed, overhead: float
) -> visits.Timed:
    """Subtract the time between two marks, and reduce launches of entries whose hold broke."""
    import numpy as np

    for i, entry in enumerate(entries):
        broke = timed.broke & (np.array(which) == i)
        if broke.any():
            least = int(timed.launches[broke].min())
            entry.alone += int((timed.launches[broke] == 1).sum())
            entry.unheld, entry.launches = entry.alone >= visits.ALONE, max(1, least // 2)
            if least > 1 or entry.unheld:
                entry.kernels = max(entry.kernels, device.kind.queue // least + 1)
    on_host = np.array([entries[w].problem.on_host for w in which])
    wall = np.where(on_host, timed.wall, np.maximum(timed.wall - (overhead), 1e-9))
    return replace(timed, wall=wall, lost=np.where(timed.broke, 1.0, timed.lost))
