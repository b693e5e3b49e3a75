"""One file is one format: `write(run, stream)`. The folder is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from reports.record import Run


def kinds() -> list[str]:
    """The formats there are, in order of name; none is imported."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))


def write(kind: str, run: Run, stream: IO[str], *, verbose: bool = False) -> None:
    """The run in a format, to an open stream. Only text knows `verbose`."""
    module = importlib.import_module(f"reports.formats.{kind}")
    if kind == "text":
        module.write(run, stream, verbose=verbose)
    else:
        module.write(run, stream)
