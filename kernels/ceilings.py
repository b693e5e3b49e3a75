"""The last ceilings that `python -m micro.ceiling` measured, in a JSON file per device."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kernels import state

CPU = "cpu"


@dataclass(frozen=True)
class Ceilings:
    """Measured peaks: FLOP/s by instruction set (on a GPU, type and unit), bytes/s by memory traffic."""

    measured: str
    environment: str
    flops: dict[str, float]  # FLOP/s
    bandwidth: dict[str, dict[int, float]]  # bytes/s, then by working set in bytes


def _file(device: str) -> str:
    return "ceilings.json" if device == CPU else f"ceilings-{device.replace(':', '-')}.json"


def save(ceilings: Ceilings, device: str = CPU) -> None:
    """Write the ceilings to this user's state folder, replacing the device's previous ceilings."""
    state.write(_file(device), json.dumps(asdict(ceilings)))


def load(device: str = CPU) -> Ceilings | None:
    """Return this user's last ceilings of a device, or None if the file is missing or unreadable."""
    return state.load(_file(device), Ceilings)
