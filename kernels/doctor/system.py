"""Facts of the system: processors that this process may use, huge pages, malloc, and variables that steer it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernels.cgroup import quota
from kernels.steering import MALLOC, TUNING, variables
from kernels.textfile import ROOT, read


@dataclass(frozen=True, slots=True)
class System:
    """Facts of the system; None: not known."""

    cores: int | None  # logical processors
    affinity: tuple[int, ...] | None
    limited: bool | None  # whether a cgroup limits processor time
    quota: float | None  # processors' worth of time that the cgroup allows
    huge_pages: str | None  # setting of transparent ones
    libc: str | None  # name and version, as "glibc 2.36"
    malloc_variables: dict[str, str]
    variables: dict[str, str]  # that steer libraries


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
        variables(MALLOC, environment),
        variables(TUNING, environment),
    )


def libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None
