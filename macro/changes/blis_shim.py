"""BLIS multiplies where MKL did: its library, which has a sgemm_ of its own, is preloaded."""

from __future__ import annotations

from kernels.libs import preload
from macro.changes import _alone, _products
from macro.changes.base import Before, Change, Effect, Seen

WORD = "blis"


def took(before: Before, after: Seen) -> Effect:
    """Its own kernels have no names: it is mapped from the start, and no product is left in MKL's."""
    if word := preload.missing([WORD], after.maps):
        return Effect(False, f"{word} is not mapped")
    was, left = (_products.kernels(x.symbols, "set") for x in (before, after))
    told = f"BLIS is mapped; products in MKL's kernels: {', '.join(was) or 'none'} before, {', '.join(left) or 'none'}"
    return Effect(bool(was) and not left, f"{told} with it")


CHANGE = Change(
    "blis-shim",
    "BLIS multiplies where MKL did",
    lambda step, value: _products.applies(step, WORD),
    lambda step, value: step.with_library(WORD),
    took,
    lambda asked: _alone.swapped(asked, "preload"),
    costs="the last bits of results",
)
