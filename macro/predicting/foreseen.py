"""Changes with the predictions made before they are timed, and the prediction of several changes at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from macro.changes import Named
from macro.changes._parts import PAGE_FAULTS, around
from macro.changes.base import Forecast, Part, Step
from reports.record import Prediction

NOT_TIMED = "not timed"


@dataclass(frozen=True)
class Foreseen:
    """A change, or several at once, with the prediction made before it is timed."""

    changes: Sequence[Named]
    changed: Step  # with the changes
    prediction: Prediction
    identity: Mapping[str, Any] = field(default_factory=dict)  # reported by its process, if it ran
    forecast: Forecast | None = None  # parts of the prediction, where this command made it

    @property
    def words(self) -> str:
        return joined(self.changes)

    @property
    def names(self) -> list[str]:
        """The words of each change."""
        return [change.words for change in self.changes]

    @property
    def there(self) -> bool:
        """True if the change is in the process, so that it is worth timing."""
        return NOT_TIMED not in (self.prediction.reason or "")


def joined(changes: Sequence[Named]) -> str:
    """Join the words of all changes into one."""
    return "+".join(change.words for change in changes)


def together(step: Step, changes: Sequence[Named]) -> Step:
    """Apply all changes to a step."""
    for change in changes:
        step = change.apply(step)
    return step


def at_once(parts: Sequence[Part]) -> list[Part]:
    """Merge parts of several changes: ratios of the same kernels (equal name and seconds) multiply.
    For example, products on two threads take half of what better kernels take."""
    alike: dict[tuple[str, float], list[Part]] = {}
    for part in parts:
        alike.setdefault((part.what, part.of), []).append(part)
    merged = []
    for (what, unchanged), same in alike.items():
        merged += same if len(same) == 1 or not unchanged else [_of_all(what, unchanged, same)]
    return merged


def _of_all(what: str, unchanged: float, same: Sequence[Part]) -> Part:
    """Multiply the ratios of parts of the same kernels.
    Seconds of new page faults add, with one common error of a fault's cost."""
    come = sum(max(0.0, part.seconds) for part in same) if what == PAGE_FAULTS else 0.0
    ratios = [1 + (min(0.0, part.seconds) if what == PAGE_FAULTS else part.seconds) / unchanged for part in same]
    change = (unchanged + come) * math.prod(ratios) - unchanged
    rests = [math.prod(ratios[:i] + ratios[i + 1 :]) for i in range(len(same))]
    half = math.hypot(*(rest * (part.high - part.low) / 2 for rest, part in zip(rests, same, strict=True)))
    if what == PAGE_FAULTS:
        known = [x for x in same if abs(x.seconds) > (x.high - x.low) / 4]  # to ± twice itself
        half = max([half, *(abs(change) * (x.high - x.low) / 2 / abs(x.seconds) for x in known)])
    return around(what, change, half, unchanged)
