"""The file of page-fault costs that `python -m micro.memory` measured last.

A kernel that touches new memory takes its time in memory touched before, plus its faults times the cost of one
fault."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from kernels import state

FILE = "faults.json"


@dataclass(frozen=True)
class Cost:
    """Seconds of one fault and their 95 % interval; None: unbounded."""

    seconds: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Faults:
    """Costs of page faults and of mapping pages, by page size in bytes (4096 and 2097152)."""

    measured: str  # UTC
    environment: str  # digest of the run's
    fault: dict[int, Cost]  # first touch of a page, beyond a touch of memory touched before
    unmap: dict[int, Cost] = field(default_factory=dict)  # mapping a page and giving it back

    def seconds(self, faults: float, page: int = 4096) -> float | None:
        """Return the seconds that `faults` page faults add, or None if their cost was not measured."""
        return faults * self.fault[page].seconds if page in self.fault else None


def save(faults: Faults) -> None:
    """Write the page-fault costs to this user's state folder, replacing the last ones."""
    state.write(FILE, json.dumps(asdict(faults)))


def load() -> Faults | None:
    """Return this user's last page-fault costs, or None if there are none that can be read."""
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
