"""Documents in files: one that stands there stays until the new one is whole, and a file of another ending stays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO


def refused(path: Path, usual: Sequence[str]) -> str | None:
    """Why a file that stands there is not replaced by a document whose names usually end so."""
    if path.is_file() and path.suffix.lower() not in ("", *usual):
        return f"there is such a file, and its name does not end in {' or '.join(usual)}: name another"
    return None


def opened(path: Path, stack: ExitStack) -> IO[str]:
    """A file beside it, which gets its name as the stack is left, where it is `whole`. Raises OSError."""
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
    """All of a document is in it. Raises OSError."""
    stream.flush()
    if stream is not sys.stdout:
        stream.close()
