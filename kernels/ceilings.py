"""The file of a machine's ceilings: what `python -m micro.ceiling` measured last, for the doctor to read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kernels import state

CPU = "cpu"


@dataclass(frozen=True)
class Ceilings:
    """FLOP/s by instruction set, of a GPU by type and unit; byte/s by kind of traffic, then by working set in bytes."""

    measured: str
    environment: str
    flops: dict[str, float]
    bandwidth: dict[str, dict[int, float]]


def _file(device: str) -> str:
    return "ceilings.json" if device == CPU else f"ceilings-{device.replace(':', '-')}.json"


def save(ceilings: Ceilings, device: str = CPU) -> None:
    """Keep them in this user's state folder, in place of the last ones of that device."""
    state.write(_file(device), json.dumps(asdict(ceilings)))


def others() -> tuple[str, ...]:
    """The devices beside the CPU that have been measured, by their names."""
    stems = sorted(path.stem for path in state.folder().glob("ceilings-*.json"))
    return tuple(stem.removeprefix("ceilings-").replace("-", ":", 1) for stem in stems)


def load(device: str = CPU) -> Ceilings | None:
    """The last ones of this user, or None where there are none that can be read."""
    try:
        record = json.loads((state.folder() / _file(device)).read_bytes())
        bandwidth = {
            kind: {int(size): rate for size, rate in rates.items()} for kind, rates in record["bandwidth"].items()
        }
        return Ceilings(record["measured"], record["environment"], record["flops"], bandwidth)
    except (OSError, ValueError, KeyError, AttributeError):
        return None
