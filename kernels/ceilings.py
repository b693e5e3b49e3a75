"""The file of a machine's ceilings: what `python -m micro.ceiling` measured last, for the doctor to read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kernels import state

FILE = "ceilings.json"


@dataclass(frozen=True)
class Ceilings:
    """FLOP/s by instruction set; byte/s by kind of traffic, then by working set in bytes."""

    measured: str
    environment: str
    flops: dict[str, float]
    bandwidth: dict[str, dict[int, float]]


def save(ceilings: Ceilings) -> None:
    state.write(FILE, json.dumps(asdict(ceilings)))


def load() -> Ceilings | None:
    """The last ones of this user, or None where there are none that can be read."""
    try:
        told = json.loads((state.folder() / FILE).read_bytes())
        bandwidth = {
            kind: {int(size): rate for size, rate in rates.items()}
            for kind, rates in told["bandwidth"].items()
        }
        return Ceilings(told["measured"], told["environment"], told["flops"], bandwidth)
    except (OSError, ValueError, KeyError, AttributeError):
        return None
