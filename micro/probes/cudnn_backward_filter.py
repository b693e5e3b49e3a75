"""cuDNN's named algorithms, backward filter."""

from __future__ import annotations

from typing import Any

from micro.probing import algorithms

QUESTION = "Which named algorithms of cuDNN run backward filter, in which arithmetic, and what does Find choose?"
LIMIT = 90.0
PART = 3
RANK = 40


def ask() -> dict[str, Any]:
    return algorithms.ask("backward filter")
