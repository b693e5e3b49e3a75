"""BLIS's products in place of MKL's: its library, which has a sgemm_ of its own, is preloaded."""

from __future__ import annotations

from macro.changes import _products
from macro.changes.base import Before, Effect, Seen


def took(before: Before, after: Seen) -> Effect:
    """Check that no product is left in MKL's kernels.
    BLIS's own kernels have no names, and its library is mapped from the start."""
    effect = _products.gone(before, after, _products.KERNEL, "MKL's kernels")
    return Effect(effect.there, f"BLIS is mapped; {effect.evidence}")


CHANGE = _products.preloaded("blis-shim", "blis", "BLIS multiplies where MKL did", took)
