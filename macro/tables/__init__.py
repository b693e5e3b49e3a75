"""Tables of the literature, to be measured again: one file is one table, its TABLE."""

from __future__ import annotations

import importlib
from pathlib import Path

from kernels.errors import UsageError, choice
from macro.tables.base import Table


def names() -> list[str]:
    """Return the names of the tables."""
    return sorted(x.stem for x in Path(__file__).parent.glob("[a-z]*.py") if x.stem != "base")


def find(name: str) -> Table:
    """Return a table by name. Raises UsageError."""
    if name not in names():
        raise UsageError(f"table {name}: {choice(name, names())}")
    table: Table = importlib.import_module(f"{__name__}.{name}").TABLE
    return table
