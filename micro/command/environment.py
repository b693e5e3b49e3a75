"""The environment of a run: what stays the same between two starts, and what was so at this one."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.state import folder as state_folder
from kernels.steering import STEERING, variables
from micro.worker import run_queue
from reports.record import Environment

if TYPE_CHECKING:
    from kernels.devices.base import Device

ROOMS = ("kernels", "macro", "micro", "reports")
PACKAGES = ("kernelgap", "numpy", "scipy", "mkl", "torch", "numba")


def environment(devices: Sequence[Device], command: str) -> Environment:
    """Of this machine, for the first line of a run file."""
    device, *others = devices
    facts = {
        "device": {"name": device.name, **device.describe()},
        "others": [{"name": other.name, **other.describe()} for other in others],
        "cores": device.limits().cores,
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "compiler": _compiler(),
        "commit": _commit(),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "variables": variables(STEERING),
    }
    machine = _digest({name: fact for name, fact in facts.items() if name != "commit"})
    state = {
        "machine": machine,
        "seed": 0 if device.kind.scripted else secrets.randbits(31),
        "load": os.getloadavg(),
        "pressure": _read("/proc/pressure/cpu"),
        "megahertz": _clock(),
        "run_delay": run_queue.told(),
        "selftest": _selftest(machine),
        "devices": {one.name: one.kind.to_record() for one in devices},
    }
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Environment(_digest(facts), facts, state, command, started)


def command_line() -> str:
    """As a person typed it: a module of this suite by the name that `python -m` takes, a file by its path in it. Of any
    other program, a script or a notebook, its name alone: its words are none of ours."""
    import shlex

    root, script, words = Path(__file__).parents[2], Path(sys.argv[0]), sys.argv[1:]
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name.removesuffix(".__main__") if spec else ""
    if module.partition(".")[0] in ROOMS:
        return shlex.join(["python", "-m", module, *words])
    if any(script.resolve().is_relative_to(root / room) for room in ROOMS):
        return shlex.join(["python", str(script.resolve().relative_to(root)), *words])
    return f"from Python: {script.name or 'interactive'}"


def _digest(facts: dict[str, Any]) -> str:
    told = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _selftest(machine: str) -> dict[str, Any] | None:
    """The figures of the last self-test on this installation, whatever our own commit was."""
    try:
        found: dict[str, Any] = json.loads((state_folder() / f"selftest/{machine}.json").read_bytes())
        return found
    except (OSError, ValueError):
        return None


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
    """Of this checkout; a `+` where files in it differ."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        told = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() or None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _clock() -> float | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("cpu MHz"):
            return float(line.split(":")[1])
    return None
