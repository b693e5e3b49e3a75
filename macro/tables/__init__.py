"""Published benchmark tables that macro measures again, a JSON file each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UsageError, choice

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Seen:
    """Published times of a network from another source than the table."""

    source: str  # publication, perhaps with another batch
    where: str  # machine on which they were measured
    seconds: Mapping[str, float]  # of a step, by tool


@dataclass(frozen=True)
class Line:
    """A network of a table, and how it is measured here."""

    name: str  # name in the table
    network: str  # name in this suite
    batch: int  # batch of the table
    batches: tuple[int, ...]  # batches in the publication's figures
    order: str  # the publication's ranking of tools, fastest first
    seen: tuple[Seen, ...] = ()
    unlike: tuple[str, ...] = ()  # reasons why the published figures are not like for like


@dataclass(frozen=True)
class Table:
    """A published benchmark table."""

    name: str
    source: str
    threads: tuple[int, ...]  # thread counts of its CPU columns
    hardware: str  # CPUs and software of the publication
    devices: tuple[str, ...]
    figures: str  # remark on where its numbers are published
    rows: Mapping[str, str]  # the table's tool that each of today's frameworks stands for
    passes: tuple[str, ...]  # frameworks whose forward pass and gradients are also timed separately
    without: str  # parts of the table that are not measured here, and the reason
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
