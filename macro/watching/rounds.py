"""Observers of programs, and rounds in which they take turns; shared by frameworks and scripts."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean as mean
from typing import Any, NamedTuple

from macro.timing.entry import FEWEST, HANGS
from macro.watching.load import Load
from macro.watching.perf import Sampler
from macro.watching.recording import Watched

BLOCK = 0.1  # seconds of steps at one level, at least
SELDOM = 3  # only every third round measures the overhead of each instrument
# Pause before samples are read again, in multiples of the last read: perf loads all symbols of a library each time.
SPARE = 4.0
# A tracer's memory lies between a program's blocks of memory, so that an allocation may not fit and the heap grows: up
# to a second of clearing pages, once. The heap grew if a step has more page faults than the fewest of a plain step
GROWN, MANY = 1.25, 4096  # times GROWN plus MANY


class Block(NamedTuple):
    """Times, faults and traces of a block of steps, from a framework's process or a script."""

    rows: Sequence[tuple[int, int, float, float]]  # of each step: start, end, CPU time, time blocked, in nanoseconds
    faults: Sequence[int]  # page faults of each step
    system: float  # seconds of a step in the operating system
    reply: Mapping[str, Any]  # of the process
    spans: Sequence[dict[str, Any]] = ()
    load: Sequence[Load] = ()

    def seconds(self, one_thread: bool) -> float:
        """Return the mean seconds of a step: wall time, or with one thread CPU time plus time blocked."""
        return mean(self.each(one_thread))

    def each(self, one_thread: bool) -> list[float]:
        """Return the seconds of each step; the time blocked is a mean over the block."""
        taken = [cpu + blocked if one_thread else end - start for start, end, cpu, blocked in self.rows]
        return [nanoseconds * 1e-9 for nanoseconds in taken]


class Observer:
    """Watched program (a framework's process or a script), with perf beside it where available."""

    tries = 3  # attempts at a block in which memory does not grow

    def __init__(self, one_thread: bool) -> None:
        self.sampler: Sampler | None = None
        self.one_thread, self.seen, self.unread = one_thread, Watched(), list[Watched]()
        self.patience = 5 * HANGS  # seconds for a block
        self.trying = math.inf  # seconds after which a block is not repeated
        self.count, self.traced = 1, 1  # steps of a block, and of one with spans
        self.faults = 0.0  # page faults of a step in the last block
        self.fewest = 0.0  # page faults of a step in the plain block with the fewest

    def attach(self, pid: int, folder: Path, stack: ExitStack) -> Sampler:
        """Attach perf to the process `pid`; `stack` closes perf."""
        self.sampler = Sampler(pid, folder)
        stack.callback(self.sampler.close)
        return self.sampler

    def round(self, number: int, order: random.Random) -> None:
        """Run plain and traced blocks of steps, in random order."""
        raise NotImplementedError

    def block(self, count: int, spans: bool = False, samples: bool = False) -> Block:
        """Run a block of steps, traced if `spans`, sampled by perf if `samples`."""
        raise NotImplementedError

    def few(self) -> int:
        """Return the page faults by which steps may differ although memory did not grow."""
        return MANY

    def undisturbed(self, count: int, spans: bool = False, samples: bool = False) -> Block:
        """Run a block in which memory does not grow; after `tries` attempts or `trying` seconds the last counts."""
        end = time.monotonic() + self.trying
        for _ in range(self.tries):
            block = self.block(count, spans, samples)
            if max(block.faults) <= GROWN * self.fewest + self.few() or time.monotonic() > end:
                break
            self.seen.retaken += 1
        return block

    def plain(self, block: Block) -> float:
        """Record a plain block's page faults, system time and load; return the seconds of a step."""
        self.seen.faults.append(self.faults)
        self.seen.system.append(block.system)
        self.seen.load += block.load
        return block.seconds(self.one_thread)

    def level(self, name: str, seconds: float) -> float:
        """Record the last block's seconds of a step at level `name`; return the seconds."""
        self.seen.level(name, seconds, self.faults)
        return seconds

    def traced_level(self, name: str, spans: bool = False, samples: bool = False) -> None:
        """Run a block with these instruments, and record its times at level `name`."""
        block = self.block(self.traced if spans else self.count, spans, samples)
        self.level(name, self.traced_seconds(block))

    def traced_seconds(self, block: Block) -> float:
        """Return the mean seconds of a traced step."""
        return block.seconds(self.one_thread)

    def watched_level(self, spans: bool = True) -> Block:
        """Run a block with all instruments in which memory does not grow; keep its data and return it."""
        block = self.undisturbed(self.traced, spans=spans, samples=True)
        self.seen.steps = [(start, end, cpu * 1e-9, blocked * 1e-9) for start, end, cpu, blocked in block.rows]
        self.seen.spans = list(block.spans)
        self.seen.watched_system.append(block.system)
        self.level("P3", self.traced_seconds(block))
        return block

    def sampled(self) -> None:
        """Add perf's samples to the unread rounds. Raises LaunchError."""
        if self.sampler and self.unread:
            seen = self.sampler.read()
            for watched in self.unread:
                watched.sampled(seen)

    def read(self) -> list[Watched]:
        """Return the unread rounds, with perf's samples. Raises LaunchError."""
        self.sampled()
        unread, self.unread = self.unread, []
        return unread


class Turn(NamedTuple):
    """Progress after a round of every observer."""

    number: int  # rounds so far
    seconds: float  # since the first round began
    read: bool  # whether perf's samples are to be read now


def in_turns(
    looks: Sequence[Observer], seconds: float, order: random.Random, fewest: int = FEWEST, early: int | None = None
) -> Iterator[Turn]:
    """Yield after each round of all observers, until `seconds` are spent and `fewest` rounds are done.

    Samples are first read after `early` rounds; None: after the fewest."""
    began = time.monotonic()
    number, now, due = 0, 0.0, 0.0
    while number < fewest or now < seconds:
        for look in order.sample(looks, len(looks)):
            look.round(number, order)
        number, now = number + 1, time.monotonic() - began
        read = number >= (early or fewest) and due <= now < seconds
        yield Turn(number, now, read)
        if read:
            took = time.monotonic() - began - now
            now, due = now + took, now + took + SPARE * took
