"""A small text file of the system (/proc, /sys), which may not exist."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")


def read(path: Path) -> str | None:
    """A small file without its last newline, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except (OSError, ValueError):
        return None


def number(path: Path) -> int | None:
    """The file's one whole number, or None where it holds none."""
    try:
        return int(read(path) or "")
    except ValueError:
        return None
