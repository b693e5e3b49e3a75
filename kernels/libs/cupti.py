"""Kernels by name, whatever library launched them: a client of CUPTI's activities in this process.

One client a process: neither torch's profiler nor ncu beside it. Its callbacks come on a thread of CUPTI's.
"""

from __future__ import annotations

import importlib
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

BUFFER = 8 << 20  # bytes

_seen: list[tuple[str, int]] = []  # kernels and their nanoseconds, since they were last taken


def start() -> dict[str, Any]:
    """From now on kernels are written down. Raises what cupti-python raises."""
    cupti: Any = importlib.import_module("cupti.cupti")

    def completed(activities: list[Any]) -> None:
        _seen.extend((str(x.name), int(x.end - x.start)) for x in activities if hasattr(x, "name"))

    cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)  # KERNEL would run them one by one
    cupti.activity_register_callbacks(lambda: (BUFFER, 0), completed)
    return {"libraries": mapped("libcupti")}


def stop() -> None:
    cupti: Any = importlib.import_module("cupti.cupti")

    cupti.activity_disable(cupti.ActivityKind.CONCURRENT_KERNEL)


class Kernels:
    """What ran since it was last asked; the device must have been waited for."""

    def take(self) -> list[tuple[str, int]]:
        cupti: Any = importlib.import_module("cupti.cupti")

        cupti.activity_flush_all(1)
        taken = _seen[:]
        del _seen[: len(taken)]
        return taken


def traced(work: Callable[[], object], wait: Callable[[], object]) -> dict[str, Any]:
    """The kernels of `work`, how often each, and their time together."""
    kernels = Kernels()
    wait()
    kernels.take()
    work()
    wait()
    return summary(kernels.take())


def summary(ran: list[tuple[str, int]]) -> dict[str, Any]:
    counts = Counter(name for name, _ in ran)
    total: Counter[str] = Counter()
    for name, nanoseconds in ran:
        total[name] += nanoseconds
    rows = [{"kernel": name[:200], "count": counts[name], "us": total[name] / 1e3} for name in counts]
    return {"count": len(ran), "kernels": sorted(rows, key=lambda row: -float(str(row["us"])))[:40]}


def mapped(part: str, maps: str | None = None) -> list[str]:
    """Libraries of this process whose file name contains `part`; there should be one CUPTI."""
    text = Path("/proc/self/maps").read_text() if maps is None else maps
    paths = {line.split(maxsplit=5)[5] for line in text.splitlines() if "/" in line}
    return sorted(path for path in paths if re.search(part, Path(path).name))


def overhead(launch: Callable[[], object], wait: Callable[[], object], count: int = 20_000) -> dict[str, Any]:
    """Microseconds of host time a launch, tracing or not, in turn: what tracing takes of it."""
    found: dict[str, list[float]] = {"off": [], "on": []}
    kernels = Kernels()
    for turn in range(6):
        if turn % 2:
            start_again()
        else:
            stop()
        begun = time.perf_counter()
        for _ in range(count):
            launch()
        wait()
        found["on" if turn % 2 else "off"].append(round((time.perf_counter() - begun) / count * 1e6, 3))
        kernels.take()
    return {"us a launch": found, "count": count}


def start_again() -> None:
    cupti: Any = importlib.import_module("cupti.cupti")

    cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
