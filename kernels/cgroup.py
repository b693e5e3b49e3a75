"""Processor time that the cgroups of this process allow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kernels.textfile import ROOT, number, read


def quota(root: Path = ROOT) -> tuple[bool | None, float | None]:
    """Return whether a cgroup limits processor time, and the limit in processors; None: not known."""
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
    """Yield the folders whose limits apply to this process: its cgroup and all above, of both versions."""
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
    """Yield a cgroup's limits in processors; None for a file that exists and holds no limit."""
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
