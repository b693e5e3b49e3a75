"""BLIS multiplies where MKL did: its library, which has a sgemm_ of its own, is preloaded."""

from __future__ import annotations

from kernels.libs import preload
from macro.changes import _parts, _products
from macro.changes.base import Before, Change, Effect, Seen

WORD = "blis"


def took(before: Before, after: Seen) -> Effect:
    """Its own kernels have no names: it is mapped from the start, and no product is left in MKL's."""
    if word := preload.missing([WORD], after.maps):
        return Effect(False, f"{word} is not mapped")
    found = _products.gone(before, after, _products.KERNEL, "MKL's kernels")
    return Effect(found.there, f"BLIS is mapped; {found.evidence}")


CHANGE = Change(
    "blis-shim",
    "BLIS multiplies where MKL did",
    lambda step, value: _products.applies(step, WORD),
    lambda step, value: step.with_library(WORD),
    took,
    lambda asked: _parts.swapped(asked, "preload"),
    costs="the last bits of results",
)
