"""Timed entries of a contest, and their number of launches per sample."""

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
SLOWER = 4  # most length of a sample, in `visit` seconds, at which it has as many launches as its rivals
GRAPH = 4096  # most launches of a captured graph, which is one entry of a stream's queue


@dataclass(eq=False)
class Timed:
    """One timed entry: a case, or a part of a case."""

    problem: Problem
    variant: Variant[Any]
    bind: Bind
    case: int  # index of its case; −1 for a canary
    uses: int  # results of one launch
    cold: tuple[str, ...] = ()  # names of its cold operands
    data: str = "normal"
    launches: int = 1  # of a sample
    warm: int = WARM  # untimed calls before a sample
    call: float = 0.0  # seconds of one launch; 0 until it is known
    kernels: int = 0  # that one launch enqueues, on a device whose stream is held
    capturable: bool = False
    unheld: bool = False  # the stream is not held while this entry is timed
    alone: int = 0  # samples of a single launch that broke the hold
    sets: int = 1  # of cold operands, rotated by launches
    turn: int = 0  # number of launches so far, to rotate the sets
    entry: Any = None  # of the compiled loop, once bound
    launch: Launch | None = None

    def seconds(self, compiled: bool) -> float:
        """Return the predicted seconds of a sample, with its warm-up; 0 until `call` is known.

        The compiled loop warms up by single calls, even if a launch makes several."""
        return self.call * (self.launches + self.warm / (self.variant.times if compiled else 1))


def launches(device: Device, entry: Timed, visit: float, fastest: float, captured: bool) -> int:
    """Return the launches of an entry's sample: as many as take `visit` seconds at `fastest` seconds each.

    On a device called step by step, a much slower entry makes fewer launches, and a held stream at most as many as its
    queue takes, unless they are captured as a graph. A launch of more kernels than the queue takes is not held."""
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
    """Return the number of launches that fit into the stream's queue while it is held."""
    return max(1, device.kind.queue // max(1, entry.kernels))


def without_overhead(
    device: Device, entries: Sequence[Timed], which: Sequence[int], timed: visits.Timed, overhead: float
) -> visits.Timed:
    """Return times without the overhead of two marks; halve launches of entries whose hold broke."""
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
