"""cuDNN's named algorithms, forward."""

from __future__ import annotations

from typing import Any

from micro.probing import algorithms

QUESTION = "Which named algorithms of cuDNN run forward, in which arithmetic, and what does Find choose?"
LIMIT = 90.0
PART = 3
RANK = 20


def ask() -> dict[str, Any]:
    return algorithms.ask("forward")
