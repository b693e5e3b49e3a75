"""The limit on processor time set by this process's cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kernels.textfile import ROOT, number, read


def quota(root: Path = ROOT) -> tuple[bool | None, float | None]:
    """Return whether a cgroup limits processor time (None: unknown), and the limit in processors, or None."""
    mount, memberships = root / "sys/fs/cgroup", read(root / "proc/self/cgroup")
    if memberships is None or not os.access(mount, os.X_OK):
        return None, None
    limits = [limit for folder in _cgroups(mount, memberships) for limit in _limits(folder)]
    if not limits:
        return False, None
    if None in limits:
        return None, None
    least = min(limit for limit in limits if limit is not None)
    return (True, least) if least < float("inf") else (False, None)


def _cgroups(mount: Path, memberships: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroups and their parents, of cgroup versions 1 and 2."""
    for line in memberships.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        for name in (controllers, "cpu") if controllers else ("", "unified"):
            folder = mount / name
            yield folder
            # In a container the path may be the host's, and folders above the mount are not visible.
            for word in path.strip("/").split("/") if ".." not in path else ():
                folder = folder / word
                yield folder


def _limits(folder: Path) -> Iterator[float | None]:
    """Yield a cgroup's limits in processors: infinity without a limit, None for an unreadable file."""
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        if os.path.exists(folder / name):
            words = (read(folder / name) or "").split()
            period = words[1] if len(words) > 1 else str(number(folder / "cpu.cfs_period_us"))
            if words and words[0] in ("max", "-1"):
                yield float("inf")
            elif words and words[0].isdigit() and period.isdigit() and int(period):
                yield int(words[0]) / int(period)
            else:
                yield None
