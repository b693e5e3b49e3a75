"""One file is one format: `write(run, stream)`, and ENDINGS of its files' names. The folder is the registry.

A format that can also write what `python -m macro explain` finds has `write_attribution(run, stream)`.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from reports.record import Run

Content: TypeAlias = Literal["contests", "attribution"]


def kinds() -> list[str]:
    """The formats there are, in order of name; none is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def documents(content: Content = "contests") -> list[str]:
    """Those that write this into a file or for a program: a command offers each as `--KIND FILE`."""
    names = [kind for kind in kinds() if kind != "text"]
    return names if content == "contests" else [kind for kind in names if hasattr(_module(kind), "write_attribution")]


def endings(kind: str) -> tuple[str, ...]:
    """Of the names that files of this format usually have."""
    names: tuple[str, ...] = _module(kind).ENDINGS
    return names


def write(kind: str, run: Run, stream: IO[str], *, verbose: bool = False) -> None:
    """The run in a format, to an open stream. `verbose` is for text alone."""
    module = _module(kind)
    if kind == "text":
        module.write(run, stream, verbose=verbose)
    else:
        module.write(run, stream)


def write_attribution(kind: str, run: Run, stream: IO[str]) -> None:
    """The attributions of a run in one of `documents("attribution")`, to an open stream."""
    _module(kind).write_attribution(run, stream)


def _module(kind: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{kind}")
