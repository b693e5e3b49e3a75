"""Marks of a program's steps, for `python -m macro explain SCRIPT`.

The command puts this folder on the script's path:

    try:
        from kernelgap import step
    except ImportError:
        from contextlib import nullcontext as step

    for batch in batches:
        with step():
            ...

A step is what runs inside; where nobody looks it does nothing. It stands in for the package kernelgap, which exports
the same class, where that is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class step:
    """A step, as a context manager."""

    begin: Callable[[], None] | None = None  # called at both ends of a step, where somebody looks
    end: Callable[[], None] | None = None

    def __enter__(self) -> Any:
        if step.begin is not None:
            step.begin()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if step.end is not None:
            step.end()
