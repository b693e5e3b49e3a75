"""What the system says of contention: time of others, stolen time, throttled periods, pressure."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Counters:
    """Running totals, or the difference of two. Seconds, but for `throttled`, which counts periods, and
    `moved`, which counts looks during which the process lost or gained cores."""

    clock: float = 0.0
    busy: float = 0.0
    own: float = 0.0
    steal: float = 0.0
    pressure: float = 0.0
    throttled: int = 0
    moved: int = 0

    @classmethod
    def now(cls) -> Counters:
        tick = os.sysconf("SC_CLK_TCK")
        words = [int(x) for x in _first(Path("/proc/stat")).split()[1:9]] or [0] * 8
        user, nice, system, _, _, irq, softirq, steal = words
        return cls(
            time.perf_counter(),
            (user + nice + system + irq + softirq) / tick,
            time.process_time(),
            steal / tick,
            _pressure(),
            _throttled(),
        )

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def foreign(self) -> float:
        """Cores kept busy by others."""
        return max(0.0, self.busy - self.own) / self.clock if self.clock else 0.0


def _first(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0]
    except OSError:
        return ""


def _pressure() -> float:
    """Seconds some task waited for a processor (PSI)."""
    words = _first(Path("/proc/pressure/cpu")).split("total=")
    return int(words[1]) * 1e-6 if len(words) > 1 else 0.0


def _throttled() -> int:
    for path in ("/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat"):
        try:
            for line in Path(path).read_text().splitlines():
                if line.startswith("nr_throttled"):
                    return int(line.split()[1])
        except OSError:
            continue
    return 0


def page_faults() -> int:
    """Of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt
