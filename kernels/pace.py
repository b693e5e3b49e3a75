"""How fast a device runs at a moment: what its clock reads and what held it down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a device runs: its clock now, and seconds so far in which it was held down, by the cause ("thermal",
    "power"). What a device does not tell is left out."""

    megahertz: float | None = None
    slowed: Mapping[str, float] = field(default_factory=dict)
