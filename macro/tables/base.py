"""A table of the literature as data: what it timed, on what, in which order it found its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """What somebody else measured of a network: seconds of a step by tool, on `where`, as told in `source`, which may
    not say at which batch."""

    source: str
    where: str
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Line:
    """A network of the table. `name`: as it is called there; `network`: as it is here; `batch`: of the table, `batches`
    of its text's pictures; `order`: of its tools, fastest first, as its text has it; `unlike`: why its figures were
    never like for like."""

    name: str
    network: str
    batch: int
    batches: tuple[int, ...]
    order: str
    seen: tuple[Seen, ...] = ()
    unlike: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """`threads`: its columns on processors; `hardware`: what they were, and what else it ran on; `figures`: where its
    own numbers are; `rows`: tools of then, by the frameworks of now that stand for them; `passes`: the frameworks whose
    forward pass and gradients are timed by themselves too."""

    name: str
    source: str
    threads: tuple[int, ...]
    hardware: str
    devices: tuple[str, ...]
    figures: str
    rows: Mapping[str, str]
    passes: tuple[str, ...]
    without: str  # what of it has no line here, and why
    lines: tuple[Line, ...] = field(default_factory=tuple)
