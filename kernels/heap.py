"""Policies of glibc's allocator, set by the environment variables that glibc reads at process start."""

from __future__ import annotations

import os

from kernels.errors import UsageError

POLICIES: dict[str, dict[str, str]] = {
    "default": {},
    # glibc keeps its memory: it maps no block separately, and returns none. The heap grows by 64 MiB at a time, so
    # that growth soon ends.
    "keep": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(64 << 30), "MALLOC_TOP_PAD_": str(64 << 20)},
}


SHIMS = ("mkl_intel", "sgemm_openblas", "blis")  # preloaded libraries that do not change the allocator


def variables(asked: str) -> dict[str, str]:
    """Return the environment variables of an allocator policy.

    Raises UsageError for an unknown policy, another C library, or an environment that already steers the allocator."""
    if asked not in POLICIES:
        raise UsageError(f"--heap {asked}: choose from {', '.join(POLICIES)}")
    if POLICIES[asked] and not _glibc():
        raise UsageError(f"--heap {asked}: requires glibc's allocator; this system supports only --heap default")
    taken = sorted(os.environ.keys() & POLICIES[asked].keys())
    if POLICIES[asked] and any(not name.startswith(SHIMS) for name in preloaded()):
        taken.append("LD_PRELOAD")
    if taken:
        raise UsageError(f"--heap {asked}: the environment already sets {', '.join(taken)}: unset it")
    return POLICIES[asked]


def preloaded() -> list[str]:
    """Return the file names in this environment's LD_PRELOAD, without the prefix `lib`."""
    files = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    return [os.path.basename(file).removeprefix("lib") for file in files]


def _glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except ValueError:
        return False
