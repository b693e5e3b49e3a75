"""Choosing a policy of glibc's allocator by the variables it reads when a process starts."""

from __future__ import annotations

import os

from kernels.errors import UsageError

POLICIES: dict[str, dict[str, str]] = {
    "default": {},
    # glibc keeps what it has: no block is mapped for itself, and none given back. It grows in pieces of 64 MiB, so that
    # it has soon grown for good.
    "keep": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(64 << 30), "MALLOC_TOP_PAD_": str(64 << 20)},
}


def variables(asked: str) -> dict[str, str]:
    """What a process is started with. Raises UsageError for an unknown policy, another C library or
    an environment in which the default is none."""
    if asked not in POLICIES:
        raise UsageError(f"--heap {asked}: there are {', '.join(POLICIES)}")
    if POLICIES[asked] and not _glibc():
        raise UsageError(f"--heap {asked}: this is for glibc's allocator; here only --heap default")
    taken = sorted(os.environ.keys() & {*POLICIES[asked], "LD_PRELOAD"}) if POLICIES[asked] else []
    if taken:
        raise UsageError(f"--heap {asked}: {', '.join(taken)} in this environment chooses already: unset it")
    return POLICIES[asked]


def _glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except ValueError:
        return False
