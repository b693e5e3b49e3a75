"""A table of the literature as data: what it timed, on what, in which order its tools came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """Another source's figures of a network."""

    source: str  # which may not have the batch
    where: str  # the machine
    seconds: Mapping[str, float]  # of a step, by tool


@dataclass(frozen=True)
class Line:
    """A network of the table."""

    name: str  # in the table
    network: str  # … and here
    batch: int  # of the table
    batches: tuple[int, ...]  # of its text's pictures
    order: str  # of its tools, fastest first, by its text
    seen: tuple[Seen, ...] = ()
    unlike: tuple[str, ...] = ()  # why its figures were never like for like


@dataclass(frozen=True)
class Table:
    """A table of the literature."""

    name: str
    source: str
    threads: tuple[int, ...]  # its columns on processors
    hardware: str  # these processors, with the other software
    devices: tuple[str, ...]
    figures: str  # where its own numbers are
    rows: Mapping[str, str]  # tools of then, by the frameworks of now that stand for them
    passes: tuple[str, ...]  # frameworks whose forward pass and gradients are timed by themselves too
    without: str  # what of it has no line here, and why
    lines: tuple[Line, ...] = field(default_factory=tuple)
