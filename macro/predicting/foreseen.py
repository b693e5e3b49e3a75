"""A change, or several at once, with what is told of it before it is timed."""

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
    """A change, or several at once: the step with them, and what is told of it before it is timed. `identity`: what its
    process said it is, where it was asked; `forecast`: the parts of what is told, where this command made it."""

    changes: Sequence[Named]
    changed: Step
    prediction: Prediction
    identity: Mapping[str, Any] = field(default_factory=dict)
    forecast: Forecast | None = None

    @property
    def words(self) -> str:
        return joined(self.changes)

    @property
    def names(self) -> list[str]:
        """Of each of its changes."""
        return [change.words for change in self.changes]

    @property
    def there(self) -> bool:
        """Whether it is in the process, so that it is worth timing."""
        return NOT_TIMED not in (self.prediction.reason or "")


def joined(changes: Sequence[Named]) -> str:
    """All of them in one word."""
    return "+".join(change.words for change in changes)


def together(step: Step, changes: Sequence[Named]) -> Step:
    """With all of these."""
    for change in changes:
        step = change.apply(step)
    return step
