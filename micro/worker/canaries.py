"""Kernels of known cost that tell when the host itself is slow, and the history of what they took.

A warning on times. It never touches a ratio, whose sides shared the round.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kernels import state
from kernels.catalog import find
from kernels.devices import runs
from kernels.ops.fma import Fma
from kernels.ops.stream import Stream
from kernels.variant import Variant
from reports import units

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.problem import Problem

LEVELS = {"fma": 0.03, "small": 0.15, "large": 0.25}  # least excess over the median that is told
SPREADS = 3.0  # … and it must be so many times the spread seen when quiet
SMALL = 4 << 20
HISTORY = 64  # commands remembered
# Of each of ten chains of a multiprocessor's 512 threads: 160 warp instructions a step, four a clock (sm_90,
# sm_100), two on sm_80. 20,480 clocks, 10 µs at 2 GHz; 41,000 on sm_80.
GPU_STEPS = 512


def canaries(device: Device) -> list[tuple[Problem, Variant[Any]]]:
    """10 to 30 µs of multiply-adds, a read of 4 MiB, a read of four last-level caches."""
    from kernels.devices.cpu import instruction_sets

    limits, on_gpu = device.limits(), runs(device.name) == "cuda"
    found: list[Problem] = [
        Fma("cuda", GPU_STEPS, processors=limits.cores) if on_gpu else Fma(isa=instruction_sets()[-1]),
        Stream("read", SMALL),
        Stream("read", 4 * limits.usable_cache),
    ]
    kernel = "cuda" if on_gpu else "c"
    return [(problem, device.adopt(find(problem.op, kernel))) for problem in found]


def level(name: str) -> str:
    """Which threshold a canary answers to, from its problem's name."""
    if name.startswith("fma/"):
        return "fma"
    return "small" if name.endswith(f"size:{SMALL}") else "large"


class History:
    """Medians of earlier commands on one installation, oldest dropped first."""

    def __init__(self, digest: str) -> None:
        self._file = f"canary/{digest}.json"
        self._now: dict[str, list[float]] = {}
        try:
            self._seen: dict[str, list[float]] = json.loads((state.folder() / self._file).read_bytes())
            self._seen = {str(k): [float(x) for x in v] for k, v in self._seen.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._seen = {}  # none yet, or of another make: it only costs the warning

    def slow(self, medians: dict[str, float]) -> str | None:
        """Which canary was slow, and by how much, against the median of earlier commands; quiet ones are remembered."""
        told = [word for name, took in medians.items() if (word := self._judge(name, took))]
        if not told:
            for name, took in medians.items():
                self._now.setdefault(name, []).append(took)
        return "; ".join(told) or None

    def save(self) -> None:
        """One value a command, its median over the contests that were not slow."""
        for name, took in self._now.items():
            self._seen[name] = [*self._seen.get(name, []), sorted(took)[len(took) // 2]][-HISTORY:]
        try:
            state.write(self._file, json.dumps(self._seen))
        except OSError:
            pass  # a warning lost, not a measurement

    def _judge(self, name: str, took: float) -> str | None:
        seen = sorted(self._seen.get(name, []))
        if len(seen) < 8:
            return None
        median = seen[len(seen) // 2]
        spread = (seen[len(seen) * 3 // 4] - seen[len(seen) // 4]) / median
        excess = took / median - 1
        if excess > max(LEVELS[level(name)], SPREADS * spread):
            return f"slow host: {_words(name)} took {excess:.0%} more than usual here"
        return None


def _words(name: str) -> str:
    """A canary's problem in a sentence."""
    size = name.rpartition("size:")[2]
    return f"a read of {units.binary(int(size))}" if size.isdigit() else "a chain of multiply-adds"
