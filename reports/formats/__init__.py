"""Formats of a run, a file each with `write(run, stream)` and ENDINGS. The folder is the registry.

A format that can also write an explanation of `python -m macro explain` has `write_attribution(run, stream)`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from reports.record import Run

Content: TypeAlias = Literal["contests", "attribution"]


def kinds() -> list[str]:
    """Return the names of the formats, sorted, without importing them."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def documents(content: Content = "contests") -> list[str]:
    """Return the formats, except text, that can write this content.

    A command offers each as `--KIND FILE`."""
    names = [kind for kind in kinds() if kind != "text"]
    return names if content == "contests" else [kind for kind in names if hasattr(_module(kind), "write_attribution")]


def endings(kind: str) -> tuple[str, ...]:
    """Return the usual file name endings of this format."""
    names: tuple[str, ...] = _module(kind).ENDINGS
    return names


def write(kind: str, run: Run, stream: IO[str], *, verbose: bool = False) -> None:
    """Write the run in a format to an open stream. Only text uses `verbose`."""
    module = _module(kind)
    if kind == "text":
        module.write(run, stream, verbose=verbose)
    else:
        module.write(run, stream)


def write_attribution(kind: str, run: Run, stream: IO[str]) -> None:
    """Write the attributions of a run in one of `documents("attribution")`."""
    _module(kind).write_attribution(run, stream)


def _module(kind: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{kind}")
