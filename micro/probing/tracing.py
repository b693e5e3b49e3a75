"""The kernels of a piece of work as CUPTI sees them, and the overhead of tracing them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from kernels.libs import cupti


def traced(work: Callable[[], object], wait: Callable[[], object]) -> dict[str, Any]:
    """The kernels of `work`, how often each, and their time together."""
    wait()
    cupti.take()
    work()
    wait()
    return summary(cupti.take())


def summary(ran: list[tuple[str, int]]) -> dict[str, Any]:
    """Of the kernels that ran (name, nanoseconds): how many, and the 40 that took longest, with calls and time."""
    counts = Counter(name for name, _ in ran)
    total: Counter[str] = Counter()
    for name, nanoseconds in ran:
        total[name] += nanoseconds
    rows = [{"kernel": name[:200], "count": counts[name], "us": total[name] / 1e3} for name in counts]
    return {"count": len(ran), "kernels": sorted(rows, key=lambda row: -float(str(row["us"])))[:40]}


def overhead(launch: Callable[[], object], wait: Callable[[], object], count: int = 20_000) -> dict[str, Any]:
    """Microseconds of host time a launch, tracing or not, in turn: what tracing takes of it."""
    microseconds: dict[str, list[float]] = {"off": [], "on": []}
    for turn in range(6):
        (cupti.resume if turn % 2 else cupti.stop)()
        begun = time.perf_counter()
        for _ in range(count):
            launch()
        wait()
        microseconds["on" if turn % 2 else "off"].append(round((time.perf_counter() - begun) / count * 1e6, 3))
        cupti.take()
    return {"us a launch": microseconds, "count": count}
