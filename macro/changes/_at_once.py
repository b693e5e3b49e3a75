"""Prediction of several changes at once, more than one of which may change the same part of a step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from macro.changes._parts import PAGE_FAULTS, around
from macro.changes.base import Part


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
