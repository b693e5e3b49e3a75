"""Facts of an installation (devices, packages, compiler, commit, steering variables) and their digest."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from kernels import suite
from kernels.steering import STEERING, variables
from kernels.textfile import read

if TYPE_CHECKING:
    from kernels.devices.base import Device

PACKAGES = ("kernelgap", "numpy", "scipy", "mkl", "torch", "numba")


def facts(devices: Sequence[Device]) -> dict[str, Any]:
    """Return the facts of this installation and of `devices`, the first as "device", the rest as "others"."""
    device, *others = devices
    return {
        "device": {"name": device.name, **device.describe()},
        "others": [{"name": other.name, **other.describe()} for other in others],
        "cores": device.limits().cores,
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "compiler": _compiler(),
        "commit": _commit(),
        "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "variables": variables(STEERING),
    }


def digest(by_name: dict[str, Any]) -> str:
    """Return the digest of facts; runs with different digests may not be comparable."""
    return hashlib.sha256(json.dumps(by_name, sort_keys=True, default=str).encode()).hexdigest()[:16]


def machine(by_name: dict[str, Any]) -> str:
    """Return the digest of all facts but the suite's commit, the key of a machine's stored figures."""
    return digest({name: fact for name, fact in by_name.items() if name != "commit"})


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _compiler() -> str | None:
    from kernels import build
    from kernels.errors import Unavailable

    try:
        return build.compiler()[1]
    except Unavailable:
        return None


def _commit() -> str | None:
    """Return the commit of the checkout, with `+` if files are modified, or of the build; None: unknown."""
    root = suite.ROOT
    if suite.PREFIX:
        return read(suite.FOLDER / "commit.txt") or None
    if not (root / ".git").exists():
        return None
    try:
        reply = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return reply.stdout.strip() or None
