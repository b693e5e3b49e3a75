"""How much room a text takes, and how it is cut to the room there is."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from reports.figures import _style

LEAST = 3  # letters and an ellipsis: what is shorter says nothing


@dataclass(frozen=True)
class Scale:
    """Of both axes of time: seconds from end to end, and inches."""

    most: float
    wide: float

    def inches(self, seconds: float) -> float:
        return seconds * self.wide / self.most

    def seconds(self, inches: float) -> float:
        return inches * self.most / self.wide


@functools.lru_cache(4096)
def inches(text: str, points: float) -> float:
    """The width of one line."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), _style.shown(text), size=points).get_extents().width) / 72 if text.strip() else 0.0


def fitted(text: str, room: float, points: float) -> str:
    """The text, its end left out where it is wider than so many inches; nothing where not even its beginning fits."""
    if inches(text, points) <= room:
        return text
    cuts = (f"{text[:most].rstrip()}…" for most in range(len(text) - 1, LEAST - 1, -1))
    return next((cut for cut in cuts if inches(cut, points) <= room), "")
