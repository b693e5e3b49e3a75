"""Tables of the literature, to be measured again: one JSON file is one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UsageError, choice

FOLDER = Path(__file__).parent


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
    lines: tuple[Line, ...] = ()


def names() -> list[str]:
    """Return the names of the tables."""
    return sorted(x.stem for x in FOLDER.glob("*.json"))


def find(name: str) -> Table:
    """Return a table by name. Raises UsageError."""
    import msgspec

    if name not in names():
        raise UsageError(f"table {name}: {choice(name, names())}")
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Table)
