"""Observers of programs, and their rounds in turns: the order in which steps are watched, whatever makes them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from macro.timing.entry import FEWEST, HANGS
from macro.watching.load import Load
from macro.watching.perf import Sampler
from macro.watching.recording import Event, Watched

BLOCK = 0.1  # seconds of steps at one level, at least
SELDOM = 3  # only each third round looks at what a level costs
# Times as long as perf's samples took to be read, until they are read again: all names of a library for a single one.
SPARE = 4.0
# What a tracer holds lies between a program's own blocks, so that one of these finds no room and the heap grows: up to
# a second of clearing pages, once. A step did so whose page faults are more than those of the plain one with fewest:
GROWN, MANY = 1.25, 4096  # so many times, and so many pages


class Block(NamedTuple):
    """A block of steps, by whatever watched them."""

    rows: Sequence[tuple[int, int, float, float]]  # of a step start, end, processor time, waits of its own: nanoseconds
    faults: Sequence[int]  # page faults of each step
    system: float  # seconds of a step in the operating system
    reply: Mapping[str, Any]  # of the process
    spans: Sequence[dict[str, Any]] = ()
    events: Sequence[Event] = ()
    load: Sequence[Load] = ()

    def seconds(self, one_thread: bool) -> float:
        """Return the seconds of a step. One thread: others' work beside it does not count, its own waits do."""
        taken = [cpu + blocked if one_thread else end - start for start, end, cpu, blocked in self.rows]
        return sum(taken) * 1e-9 / len(taken)


class Observer:
    """A program that is watched, a network's process or a script, and perf beside it."""

    tries = 3  # of a block in which the program does not grow

    def __init__(self, one_thread: bool) -> None:
        self.sampler: Sampler | None = None
        self.one_thread, self.seen, self.unread = one_thread, Watched(), list[Watched]()
        self.patience = 5 * HANGS  # seconds for a block
        self.count, self.traced = 1, 1  # steps of a block, and of one with spans
        self.faults = 0.0  # page faults of a step of the last block
        self.fewest = 0.0  # page faults of a step of the plain block that had fewest

    def attach(self, pid: int, folder: Path, stack: ExitStack) -> Sampler:
        """Attach perf, which `stack` ends."""
        self.sampler = Sampler(pid, folder)
        stack.callback(self.sampler.close)
        return self.sampler

    def round(self, number: int, order: random.Random) -> None:
        """Run plain and traced blocks of steps, in random order."""
        raise NotImplementedError

    def block(self, count: int, spans: bool = False, samples: bool = False) -> Block:
        """Run a block of steps."""
        raise NotImplementedError

    def few(self) -> int:
        """Return the page faults by which steps may differ though the program did not grow."""
        return MANY

    def undisturbed(self, count: int, spans: bool = False, samples: bool = False) -> Block:
        """Run a block in which the program does not grow; after `tries` of them the last one counts."""
        for _ in range(self.tries):
            block = self.block(count, spans, samples)
            if max(block.faults) <= GROWN * self.fewest + self.few():
                break
            self.seen.retaken += 1
        return block

    def plain(self, block: Block) -> float:
        """Record a plain block's page faults, time in the system and load; return the seconds of a step."""
        self.seen.faults.append(self.faults)
        self.seen.system.append(block.system)
        self.seen.load += block.load
        return block.seconds(self.one_thread)

    def level(self, name: str, seconds: float) -> float:
        """Record a block of steps of so many seconds each at a level; return the seconds."""
        self.seen.level(name, seconds, self.faults)
        return seconds

    def traced_level(self, name: str, spans: bool = False, samples: bool = False) -> None:
        """Run a block with these instruments, and record its level."""
        block = self.block(self.traced if spans else self.count, spans, samples)
        self.level(name, block.seconds(self.one_thread))

    def watched_level(self, spans: bool = True) -> None:
        """Run a block with all instruments in which the program does not grow, and keep what they saw."""
        block = self.undisturbed(self.traced, spans=spans, samples=True)
        self.seen.steps = [(start, end, cpu * 1e-9, blocked * 1e-9) for start, end, cpu, blocked in block.rows]
        self.seen.spans, self.seen.events = list(block.spans), list(block.events)
        self.seen.watched_system.append(block.system)
        self.level("P3", block.seconds(self.one_thread))

    def sampled(self) -> None:
        """Give the unread rounds perf's samples. Raises LaunchError."""
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
    """A round of each has ended."""

    number: int  # rounds so far
    seconds: float  # since the first began
    read: bool  # whether what perf saw is to be read now


def in_turns(looks: Sequence[Observer], seconds: float, order: random.Random, fewest: int = FEWEST) -> Iterator[Turn]:
    """Yield rounds until `seconds` are spent, `fewest` or more; reading samples takes a fifth at most."""
    began = time.monotonic()
    number, now, due = 0, 0.0, 0.0
    while number < fewest or now < seconds:
        for look in order.sample(looks, len(looks)):
            look.round(number, order)
        number, now = number + 1, time.monotonic() - began
        read = number >= fewest and due <= now < seconds
        yield Turn(number, now, read)
        if read:
            took = time.monotonic() - began - now
            now, due = now + took, now + took + SPARE * took
