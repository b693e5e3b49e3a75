"""Kernels by name, whatever library launched them: a client of CUPTI's activities in this process.

One client a process: neither torch's profiler nor ncu beside it. Its callbacks come on a thread of CUPTI's.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

BUFFER = 8 << 20  # bytes

_seen: list[tuple[str, int]] = []  # kernels and their nanoseconds, since they were last taken


def start() -> dict[str, Any]:
    """From now on kernels are written down. Raises what cupti-python raises."""
    cupti = _binding()

    def completed(activities: list[Any]) -> None:
        _seen.extend((str(x.name), int(x.end - x.start)) for x in activities if hasattr(x, "name"))

    cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)  # KERNEL would run them one by one
    cupti.activity_register_callbacks(lambda: (BUFFER, 0), completed)
    return {"libraries": mapped("libcupti")}


def stop() -> None:
    """Until `resume`."""
    cupti = _binding()
    cupti.activity_disable(cupti.ActivityKind.CONCURRENT_KERNEL)


def resume() -> None:
    """After `stop`; the callbacks are still registered."""
    cupti = _binding()
    cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)


def take() -> list[tuple[str, int]]:
    """What ran since it was last taken, name and nanoseconds; the device must have been waited for."""
    _binding().activity_flush_all(1)
    taken = _seen[:]
    del _seen[: len(taken)]
    return taken


def mapped(part: str, maps: str | None = None) -> list[str]:
    """Libraries of this process whose file name contains `part`; there should be one CUPTI."""
    text = Path("/proc/self/maps").read_text() if maps is None else maps
    paths = {line.split(maxsplit=5)[5] for line in text.splitlines() if "/" in line}
    return sorted(path for path in paths if re.search(part, Path(path).name))


def _binding() -> Any:
    return importlib.import_module("cupti.cupti")
