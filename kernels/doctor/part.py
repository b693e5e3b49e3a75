"""What every fact of the doctor is made of: parts that can be installed, files and programs that may not be there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

ROOT = Path("/")
PATIENCE = 5.0  # seconds until a program counts as one that does not answer


@dataclass(frozen=True, slots=True)
class Part:
    """`reason`: why it is not here; `install`: the command that brings it."""

    here: bool
    version: str | None = None
    reason: str | None = None
    install: str | None = None


def absent(reason: str, install: str | None) -> Part:
    return Part(False, reason=reason, install=install)


def said(error: BaseException) -> str:
    """An exception on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def read(path: Path) -> str | None:
    """A small file without its last newline, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):
        return None


def number(path: Path) -> int | None:
    """The file's one whole number."""
    try:
        return int(read(path) or "")
    except ValueError:
        return None


def run(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """The program's answer in English. Raises OSError, subprocess.TimeoutExpired."""
    import subprocess  # here: whatever is read without a program starts without it

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
