"""Building blocks of the doctor's facts: installable parts, and programs that may be missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

PATIENCE = 5.0  # seconds that a program may take


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an installation."""

    here: bool
    version: str | None = None
    reason: str | None = None  # why it is not here
    install: str | None = None  # command that installs it


def absent(reason: str, install: str | None) -> Part:
    return Part(False, reason=reason, install=install)


def summary(error: BaseException) -> str:
    """Return an exception on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def run(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program with English output. Raises OSError, subprocess.TimeoutExpired."""
    import subprocess  # imported here because most facts need no program

    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=PATIENCE,
        env=os.environ | {"LC_ALL": "C"},
    )
