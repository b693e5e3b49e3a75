"""Contention counters of the system: time of other processes, stolen time, throttled periods, pressure."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Counters:
    """Running totals, or the difference of two. Seconds, but for `throttled`, which counts periods, and
    `moved`, which counts looks during which the process lost or gained cores. `steal`: of the whole machine; `stolen`:
    of a core on which this process may run; `allowed`: busy time of all cores on which it may run."""

    clock: float = 0.0
    busy: float = 0.0
    process: float = 0.0
    steal: float = 0.0
    pressure: float = 0.0
    throttled: int = 0
    moved: int = 0
    stolen: float = 0.0
    allowed: float = 0.0

    @classmethod
    def now(cls) -> Counters:
        tick = os.sysconf("SC_CLK_TCK")
        lines = _text(Path("/proc/stat")).splitlines()
        user, nice, system, _, _, irq, softirq, steal = _ticks(lines, "cpu")
        cores = [_ticks(lines, f"cpu{core}") for core in _own_cores()]
        stolen = [ticks[-1] for ticks in cores]
        return cls(
            time.perf_counter(),
            (user + nice + system + irq + softirq) / tick,
            time.process_time(),
            steal / tick,
            _pressure(),
            _throttled(),
            0,
            sum(stolen) / max(1, len(stolen)) / tick,
            sum(sum(ticks[:3]) + sum(ticks[5:7]) for ticks in cores) / tick,
        )

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def foreign(self) -> float:
        """Cores kept busy by others."""
        return max(0.0, self.busy - self.process) / self.clock if self.clock else 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _ticks(lines: Sequence[str], name: str) -> list[int]:
    """Of a line of /proc/stat: user, nice, system, idle, waiting, interrupts, soft ones, stolen; zeros without one."""
    words: list[str] = next((line.split() for line in lines if line.startswith(f"{name} ")), [])
    return [int(word) for word in words[1:9]] or [0] * 8


def _own_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _pressure() -> float:
    """Seconds some task waited for a processor (PSI)."""
    words = _text(Path("/proc/pressure/cpu")).partition("\n")[0].split("total=")
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
