"""BLIS multiplies where MKL did: its library, which has a sgemm_ of its own, is preloaded."""

from __future__ import annotations

from macro.changes import _products
from macro.changes.base import Before, Effect, Seen


def took(before: Before, after: Seen) -> Effect:
    """Its own kernels have no names, and it is mapped from the start: no product is left in MKL's."""
    effect = _products.gone(before, after, _products.KERNEL, "MKL's kernels")
    return Effect(effect.there, f"BLIS is mapped; {effect.evidence}")


CHANGE = _products.preloaded("blis-shim", "blis", "BLIS multiplies where MKL did", took)
