"""A device's momentary speed: its clock, and what throttled it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pace:
    """A device's clock and throttled time; readings that the device does not report are left out."""

    megahertz: float | None = None  # clock now
    slowed: Mapping[str, float] = field(default_factory=dict)  # throttled seconds, by cause ("thermal", "power")
