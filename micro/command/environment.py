"""The environment of a run: lasting facts of the machine, and its state when the run begins."""

from __future__ import annotations

import datetime
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import suite
from kernels.doctor import facts
from kernels.setting import REFUSABLE
from kernels.state import folder as state_folder
from kernels.textfile import read
from micro.worker import run_queue
from reports.record import Environment

if TYPE_CHECKING:
    from kernels.devices.base import Device


def environment(devices: Sequence[Device], command: str) -> Environment:
    """Return the environment on these devices, for the first line of a run file."""
    device, all_facts = devices[0], facts.facts(devices)
    machine = facts.machine(all_facts)
    state = {
        "machine": machine,
        "seed": 0 if device.kind.scripted else secrets.randbits(31),
        "load": os.getloadavg(),
        "pressure": read("/proc/pressure/cpu"),
        "megahertz": _clock(),
        "run_delay": run_queue.available(),
        "selftest": _selftest(machine),
        "devices": {x.name: x.kind.to_record(REFUSABLE) for x in devices},
    }
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Environment(facts.digest(all_facts), all_facts, state, command, started)


def command_line() -> str:
    """Return the command as typed: modules by their name, files by their path in the suite.

    A script or a notebook outside the suite is only named, without its arguments."""
    import shlex

    script, words = Path(sys.argv[0]), sys.argv[1:]
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name.removeprefix(suite.PREFIX) if spec else ""
    if suite.is_package(module.partition(".")[0]):
        return suite.typed(module, *words)
    place = script.resolve()
    if any(suite.is_package(folder.name) for folder in (place, *place.parents) if folder.parent == suite.FOLDER):
        return shlex.join(["python", str(place.relative_to(suite.FOLDER)), *words])
    return f"from Python: {script.name or 'interactive'}"


def _selftest(machine: str) -> dict[str, Any] | None:
    """Return the figures of the last self-test on this machine, of any commit; None without a self-test."""
    try:
        document: dict[str, Any] = json.loads((state_folder() / f"selftest/{machine}.json").read_bytes())
        return document
    except (OSError, ValueError):
        return None


def _clock() -> float | None:
    for line in (read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("cpu MHz"):
            return float(line.split(":")[1])
    return None
