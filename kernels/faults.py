"""The file of what page faults cost here: what `python -m micro.memory` measured last, for others to read.

The time of a kernel that touches new memory is its time in memory that was touched before, plus its faults
times the cost of one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from kernels import state

FILE = "faults.json"


@dataclass(frozen=True)
class Cost:
    """Seconds of one, and their 95 % interval; None: unbounded."""

    seconds: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Faults:
    """By bytes of a page, 4096 and 2097152: the first touch of one, beyond the touching of memory that was
    touched before; and mapping it and giving it back. `measured` is UTC, `environment` the digest of the run."""

    measured: str
    environment: str
    fault: dict[int, Cost]
    unmap: dict[int, Cost] = field(default_factory=dict)

    def seconds(self, faults: float, page: int = 4096) -> float | None:
        """What so many faults add, or None where that was not measured."""
        return faults * self.fault[page].seconds if page in self.fault else None


def save(faults: Faults) -> None:
    """Keep the cost of page faults in this user's state folder, in place of the last one."""
    state.write(FILE, json.dumps(asdict(faults)))


def load() -> Faults | None:
    """The last ones of this user, or None where there are none that can be read."""
    try:
        record = json.loads((state.folder() / FILE).read_bytes())
        return Faults(
            str(record["measured"]), str(record["environment"]), *map(_costs, (record["fault"], record["unmap"]))
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


def _costs(by_page: dict[str, dict[str, float | None]]) -> dict[int, Cost]:
    costs = {}
    for page, cost in by_page.items():
        if not isinstance(cost["seconds"], float):
            raise TypeError(f"{page}: {cost}")
        costs[int(page)] = Cost(cost["seconds"], cost["low"], cost["high"])
    return costs
