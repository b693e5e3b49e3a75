"""Which of many cases alike `make test` has: the others are make test-all's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def some(every: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[Any]:
    """As parameters, every fifth of them; the others are slow."""
    return [
        pytest.param(*one, id=name, marks=[] if i % 5 == 0 else pytest.mark.slow)
        for i, (one, name) in enumerate(zip(every, names, strict=True))
    ]
