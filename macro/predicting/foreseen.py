"""A change, or several at once, with the prediction made before it is timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from macro.changes import Named
from macro.changes.base import Forecast, Step
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
