"""Facts of the system: processors that this process may use, huge pages, malloc, and variables that steer it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.cgroup import quota
from kernels.steering import MALLOC, TUNING, variables
from kernels.textfile import ROOT, read

ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc", "hoard", "musl")


@dataclass(frozen=True, slots=True)
class System:
    """Facts of the system; None: not known."""

    cores: int | None  # logical processors
    affinity: tuple[int, ...] | None
    limited: bool | None  # whether a cgroup limits processor time
    quota: float | None  # processors' worth of time that the cgroup allows
    huge_pages: str | None  # setting of transparent ones
    libc: str | None  # name and version, as "glibc 2.36"
    malloc: str | None  # name
    malloc_variables: dict[str, str]
    variables: dict[str, str]  # that steer libraries


class _Symbol(ctypes.Structure):
    """Dl_info, which dladdr fills."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def system(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> System:
    """Return the facts of the system whose files lie in `root`."""
    affinity = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None
    transparent = read(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    return System(
        os.cpu_count(),
        affinity,
        *quota(root),
        transparent.partition("[")[2].partition("]")[0] or None,  # as in "always [madvise] never"
        libc(),
        malloc(),
        variables(MALLOC, environment),
        variables(TUNING, environment),
    )


def libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def malloc() -> str | None:
    """Return the usual name of the malloc that serves this process, or None."""
    try:
        path = _exporter()
    except (OSError, AttributeError, TypeError):
        return None
    file = os.path.basename(path or "")
    known = next((name for name in ALLOCATORS if name in file), None)
    return known or ("glibc" if file.startswith(("libc.so", "libc-2")) else file or None)


def _exporter() -> str | None:
    """Return the file that exports malloc to libraries: a preloaded one precedes the C library."""
    process = ctypes.CDLL(None)
    path = None
    for symbol in ("malloc", "posix_memalign"):
        info = _Symbol()
        if process.dladdr(ctypes.cast(process[symbol], ctypes.c_void_p), ctypes.byref(info)) and info.path:
            path = os.fsdecode(info.path)
            if ".so" in path:
                break
            # An executable that is not position-independent resolves to itself; try the next symbol.
    return path
