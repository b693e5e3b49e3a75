"""Observers of programs, and their rounds in turns: the order in which steps are watched, whatever makes them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

from macro.timing.entry import FEWEST, HANGS
from macro.watching.perf import Sampler
from macro.watching.recording import Watched

BLOCK = 0.1  # seconds of steps at one level, at least
SELDOM = 3  # only each third round looks at what a level costs
# Times as long as perf's samples took to be read, until they are read again: all names of a library for a single one.
SPARE = 4.0
# What a tracer holds lies between a program's own blocks, so that one of these finds no room and the heap grows: up to
# a second of clearing pages, once. A step did so whose page faults are more than those of the plain one with fewest:
GROWN, MANY = 1.25, 4096  # so many times, and so many pages
Block = TypeVar("Block")


class Observer:
    """A program that is watched, a network's process or a script, and perf beside it."""

    def __init__(self, one_thread: bool) -> None:
        self.sampler: Sampler | None = None
        self.one_thread, self.seen, self.unread = one_thread, Watched(), list[Watched]()
        self.patience, self.count = 5 * HANGS, 1  # seconds for a block, and its steps
        self.faults = 0.0  # page faults of a step of the last block

    def attach(self, pid: int, folder: Path, stack: ExitStack) -> Sampler:
        """Attach perf, which `stack` ends."""
        self.sampler = Sampler(pid, folder)
        stack.callback(self.sampler.close)
        return self.sampler

    def round(self, number: int, order: random.Random) -> None:
        """Run plain and traced blocks of steps, in random order."""
        raise NotImplementedError

    def level(self, name: str, seconds: float) -> float:
        """Record a block of steps of so many seconds each at a level; return the seconds."""
        self.seen.level(name, seconds, self.faults)
        return seconds

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


def undisturbed(block: Callable[[], Block], grew: Callable[[Block], bool], tries: int) -> tuple[Block, int]:
    """Return a block in which the program did not grow, or the last of `tries`, and how many were in vain."""
    for taken in range(tries):
        taken_block = block()
        if not grew(taken_block):
            return taken_block, taken
    return taken_block, tries
