"""Canaries in a run file: their names in words, and the canaries relevant to a result."""

from __future__ import annotations

from collections.abc import Iterable

from reports import units
from reports.record import Result

LIMIT = 0.02  # largest relative difference of the canaries of two runs that allows a verdict between them


def words(name: str) -> str:
    """Return the description of a canary by the name of its problem."""
    size = read_size(name)
    return f"a read of {units.binary(size)}" if size else "a chain of multiply-adds"


def read_size(name: str) -> int | None:
    """Return the bytes that a canary reads, or None for the canary of multiply-adds."""
    size = name.rpartition("size:")[2]
    return int(size) if size.isdigit() else None


def relevant(names: Iterable[str], result: Result) -> list[str]:
    """Return the names of the canaries relevant to a result.

    Reads beyond the smallest read that covers the result's working set are not relevant."""
    sizes = {name: read_size(name) or 0 for name in names}
    if result.footprint is None or result.cold:
        return list(sizes)
    holding = [size for size in sizes.values() if size >= result.footprint]
    return [name for name, size in sizes.items() if not holding or size <= min(holding)]
