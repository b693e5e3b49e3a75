"""Marker of a script's steps, for `python -m macro explain SCRIPT`.

The command puts this folder on the script's path:

    try:
        from kernelgap import step
    except ImportError:
        from contextlib import nullcontext as step

    for batch in batches:
        with step():
            ...

A step is the code in the block; unless the script is watched, `step` does nothing. This module replaces the package
kernelgap, which exports the same class, where the package is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class step:
    """A context manager that marks a step."""

    begin: Callable[[], None] | None = None  # called at both ends of a step, if watched
    end: Callable[[], None] | None = None

    def __enter__(self) -> Any:
        if step.begin is not None:
            step.begin()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if step.end is not None:
            step.end()
