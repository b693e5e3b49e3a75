"""Documents in files: an existing file stays until the new one is complete."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO


def refused(path: Path, usual: Sequence[str]) -> str | None:
    """Return why a document with these usual endings may not replace the file at `path`, or None."""
    if path.is_file() and path.suffix.lower() not in ("", *usual):
        return f"file exists, and its name does not end in {' or '.join(usual)}: name another"
    return None


def opened(path: Path, stack: ExitStack) -> IO[str]:
    """Open a temporary file that replaces `path` when the stack exits, if finished. Raises OSError."""
    if path.exists() and not path.is_file():  # a device or a pipe
        return stack.enter_context(path.open("w", encoding="utf-8"))
    part = path.with_name(f"{path.name}.part")
    stream = part.open("w", encoding="utf-8")

    def place() -> None:
        if stream.closed:
            part.replace(path)
        else:
            stream.close()
            part.unlink(missing_ok=True)

    stack.callback(place)
    return stream


def finish(stream: IO[str]) -> None:
    """Flush and close a document, so that it replaces the file at its path. Raises OSError."""
    stream.flush()
    if stream is not sys.stdout:
        stream.close()
