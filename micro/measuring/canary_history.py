"""Canary times of earlier commands on an installation, and a warning when canaries are slow now.

The warning changes no ratio, as both sides of a ratio run in the same rounds."""

from __future__ import annotations

import json

from kernels import state
from micro.worker.speed import SMALL
from reports import canaries

LEVELS = {"fma": 0.03, "small": 0.15, "large": 0.25}  # least excess over the median for a warning
SPREADS = 3.0  # least excess for a warning, in interquartile ranges of the history
HISTORY = 64  # most commands remembered


def level(name: str) -> str:
    """Return the key of LEVELS that applies to a canary, from the name of its problem."""
    if name.startswith("fma/"):
        return "fma"
    return "small" if name.endswith(f"size:{SMALL}") else "large"


class History:
    """Canary medians of the last HISTORY commands on one installation."""

    def __init__(self, digest: str) -> None:
        self._file = f"canary/{digest}.json"
        self._now: dict[str, list[float]] = {}
        try:
            self._seen: dict[str, list[float]] = json.loads((state.folder() / self._file).read_bytes())
            self._seen = {str(k): [float(x) for x in v] for k, v in self._seen.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._seen = {}  # missing or of another format: only the warning is lost

    def slow(self, medians: dict[str, float]) -> str | None:
        """Return a warning of canaries slower than in earlier commands; None if there is none."""
        return "; ".join(word for name, took in medians.items() if (word := self._judge(name, took))) or None

    def remember(self, medians: dict[str, float]) -> None:
        """Record canary medians of a contest in which the host was not slow."""
        for name, took in medians.items():
            self._now.setdefault(name, []).append(took)

    def save(self) -> None:
        """Save one value per command: its median over the contests that were not slow."""
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
            return f"slow host: {canaries.words(name)} took {excess:.0%} longer than usual"
        return None
