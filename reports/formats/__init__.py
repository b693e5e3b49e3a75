"""One file is one format: `write(run, stream)`. The folder is the registry."""

from __future__ import annotations

import importlib
from typing import IO

from reports.record import Run


def write(kind: str, run: Run, stream: IO[str], *, verbose: bool = False) -> None:
    """The run in a format, to an open stream. Only text knows `verbose`."""
    module = importlib.import_module(f"reports.formats.{kind}")
    if kind == "text":
        module.write(run, stream, verbose=verbose)
    else:
        module.write(run, stream)
