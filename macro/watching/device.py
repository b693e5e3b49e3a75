"""Observed GPU work of a program: the data alone, whatever tool recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What a stream did. `kind`: kernel, copy or clear; `start`, `end`: nanoseconds; `launched`: when the host
    enqueued it, where that is known; `nbytes`: of a copy; `linked`: whether that is between host and device."""

    name: str
    kind: str
    device: int
    stream: int
    start: int
    end: int
    launched: int | None = None
    nbytes: int = 0
    linked: bool = False


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
