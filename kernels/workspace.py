"""`--workspace`: the bytes that a kernel may hold beside its operands, as a user types them."""

from __future__ import annotations

import re

from kernels.errors import UsageError

UNLIMITED = "unlimited"
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


def limit(word: str) -> int | None:
    """Parse a word such as `1MiB` into bytes, and `unlimited` into None. Raises UsageError."""
    match = re.fullmatch(r"([0-9]+)(GiB|MiB|KiB|B|)", word)
    if match:
        return int(match[1]) * UNITS.get(match[2], 1)
    if word == UNLIMITED:
        return None
    raise UsageError(f"--workspace: {word!r} is neither a size such as 512KiB or 8MiB nor {UNLIMITED}")


def typed(limit: int | None) -> str:
    """Return a limit in bytes as a user types it, in the largest exact unit; None: "unlimited"."""
    if limit is None:
        return UNLIMITED
    unit = next((unit for unit, size in UNITS.items() if limit and limit % size == 0), "B")
    return f"{limit // UNITS[unit]}{unit}"


def enough(nbytes: int) -> str:
    """Return a limit to type: `nbytes` rounded up to a whole B, KiB, MiB or GiB."""
    unit = next((unit for unit, size in UNITS.items() if nbytes >= 8 * size), "B")
    return typed(-(-nbytes // UNITS[unit]) * UNITS[unit])
