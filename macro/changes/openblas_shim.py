"""OpenBLAS multiplies where MKL did: sgemm_ is preloaded."""

from __future__ import annotations

from kernels.libs import openblas, preload
from macro.changes import _parts, _products
from macro.changes.base import Before, Change, Effect, Seen

WORD = "sgemm-openblas"


def took(before: Before, after: Seen) -> Effect:
    if word := preload.missing([WORD], after.maps):
        return Effect(False, f"{word} is not mapped")
    path = openblas.path("scipy")
    if path is None or path.name not in after.maps:  # NumPy's own is another file
        return Effect(False, "SciPy's OpenBLAS is not mapped, which the first sgemm_ that it answers does")
    if left := _products.kernels(after.symbols, "set"):
        return Effect(False, f"SciPy's OpenBLAS is mapped, and products are in MKL's {', '.join(left)} kernels")
    return Effect(True, "SciPy's OpenBLAS is mapped, which the first sgemm_ that it answers does")


CHANGE = Change(
    "openblas-shim",
    "OpenBLAS multiplies where MKL did",
    lambda step, value: _products.applies(step, WORD),
    lambda step, value: step.with_library(WORD),
    took,
    lambda asked: _parts.swapped(asked, "preload"),
    costs="the last bits of results",
)
