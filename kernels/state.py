"""The folder of per-user state: build cache, ceilings, self-test figures, the canary's history."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
VARIABLE = "KERNELGAP_STATE"


@functools.cache
def folder() -> Path:
    """Return the state folder, created on first use and readable by its owner alone.

    The folder is `$KERNELGAP_STATE`, else `$XDG_CACHE_HOME/kernelgap`, else `~/.cache/kernelgap`; if none of them
    can be written, a temporary folder (`is_temporary`)."""
    asked = os.environ.get(VARIABLE)
    try:
        path = Path(asked or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kernelgap"))
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(path, os.W_OK | os.X_OK):
            return path
    except (OSError, RuntimeError):  # a full or a read-only disk; a user without a home
        pass
    import tempfile  # imported here, as below, because most commands write no file before they measure

    temporary = tempfile.mkdtemp(prefix="kernelgap-")
    os.environ[VARIABLE] = temporary  # the same one for the workers
    return Path(temporary)


def is_temporary() -> bool:
    """Return whether the state folder is temporary, because no lasting folder is writable."""
    return folder().name.startswith("kernelgap-")


def write(name: str, text: str) -> Path:
    """Replace the file `name` in one step, so that a reader never finds half of it."""
    return write_bytes(name, text.encode())


def write_bytes(name: str, content: bytes) -> Path:
    """Replace the file `name` by bytes in one step, so that a reader never finds half of it."""
    import tempfile

    target = folder() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    os.replace(temporary, target)
    return target


def load(name: str, kind: type[T]) -> T | None:
    """Return the JSON file `name` decoded as `kind`, or None if it is missing or unreadable."""
    import msgspec  # imported here because plans do not need it

    try:
        return msgspec.json.decode((folder() / name).read_bytes(), type=kind)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
