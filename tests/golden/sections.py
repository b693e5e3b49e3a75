"""Files of expected text in titled sections. `GOLDEN=write` rewrites them."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path


@functools.cache
def _sections(path: Path, changed: int) -> dict[str, str]:
    parts = re.split(r"^== (.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def sections(path: Path) -> dict[str, str]:
    """Return the text below each title of a file."""
    return _sections(path, path.stat().st_mtime_ns) if path.exists() else {}


def compare(path: Path, title: str, content: str) -> None:
    """Compare one section of a file, or rewrite it."""
    if os.environ.get("GOLDEN") == "write":
        everything = sections(path) | {title: content}
        path.write_text("".join(f"== {key}\n{text}" for key, text in sorted(everything.items())), "utf-8")
    assert content == sections(path).get(title), f"{path.name}, {title}: if this is right: make golden, read the diff"
