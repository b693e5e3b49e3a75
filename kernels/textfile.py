"""Small text files of the system (/proc, /sys), which may not exist."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")


def read(path: Path | str) -> str | None:
    """Return a small file's text, stripped, or None if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except (OSError, ValueError):
        return None


def number(path: Path) -> int | None:
    """Return the integer that is a file's only content, or None if it is missing or holds none."""
    try:
        return int(read(path) or "")
    except ValueError:
        return None
