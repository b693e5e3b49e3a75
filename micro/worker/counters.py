"""System counters of contention: busy and stolen time, throttled periods, pressure."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from micro.worker import process_state


@dataclass(frozen=True, slots=True)
class Counters:
    """Running totals in seconds, or the difference of two readings."""

    clock: float = 0.0  # wall time
    busy: float = 0.0  # user and system time of all cores
    process: float = 0.0  # processor time of this process; its key in run files is `own`
    steal: float = 0.0  # of the entire machine
    pressure: float = 0.0  # in which some task waited for a processor (PSI)
    throttled: int = 0  # periods in which the cgroup used up its CPU quota
    moved: int = 0  # batches during which the process lost or gained cores
    stolen: float = 0.0  # per core that this process may run on
    allowed: float = 0.0  # busy time of the cores that this process may run on

    @classmethod
    def now(cls) -> Counters:
        tick = os.sysconf("SC_CLK_TCK")
        lines = _text(Path("/proc/stat")).splitlines()
        user, nice, system, _, _, irq, softirq, steal = _ticks(lines, "cpu")
        cores = [_ticks(lines, f"cpu{core}") for core in process_state.cores()]
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

    def record(self) -> dict[str, float]:
        """Return the totals by their keys in run files."""
        return {"own" if name == "process" else name: value for name, value in asdict(self).items()}

    @property
    def foreign(self) -> float:
        """Mean number of cores kept busy by other processes."""
        return max(0.0, self.busy - self.process) / self.clock if self.clock else 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _ticks(lines: Sequence[str], name: str) -> list[int]:
    """Return user, nice, system, idle, iowait, irq, softirq, steal of a /proc/stat line; zeros if missing."""
    words: list[str] = next((line.split() for line in lines if line.startswith(f"{name} ")), [])
    return [int(word) for word in words[1:9]] or [0] * 8


def _pressure() -> float:
    """Seconds in which at least one task waited for a processor (PSI)."""
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
    """Return the page faults of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt
