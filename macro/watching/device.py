"""Observed GPU work of a program: the data alone, whatever tool recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """An operation of a stream."""

    name: str
    kind: str  # kernel, copy or clear
    device: int
    stream: int
    start: int  # nanoseconds, as end
    end: int
    launched: int | None = None  # when the host enqueued it, where that is known
    nbytes: int = 0  # of a copy
    linked: bool = False  # whether a copy is between host and device


@dataclass(frozen=True)
class Device:
    """A GPU and its work."""

    name: str
    work: Sequence[Work]


@dataclass(frozen=True)
class Trace:
    """`steps`: of the program, start and end on the host, where it marks them."""

    devices: Sequence[Device]
    steps: Sequence[tuple[int, int]] = ()
