"""OpenBLAS's products in place of MKL's: its sgemm_ is preloaded."""

from __future__ import annotations

from kernels.libs import openblas
from macro.changes import _products
from macro.changes.base import Before, Effect, Seen


def took(before: Before, after: Seen) -> Effect:
    path = openblas.path("scipy")
    if path is None or path.name not in after.maps:  # NumPy's own is another file
        return Effect(False, "SciPy's OpenBLAS is not mapped, which the first sgemm_ that it answers does")
    if not _products.kernels(before.symbols, "set"):
        return Effect(False, "no product was seen in MKL's kernels before, so nothing shows who multiplies")
    if left := _products.kernels(after.symbols, "set"):
        return Effect(False, f"SciPy's OpenBLAS is mapped, and products are in MKL's {', '.join(left)} kernels")
    return Effect(True, "SciPy's OpenBLAS is mapped, which the first sgemm_ that it answers does")


CHANGE = _products.preloaded("openblas-shim", "sgemm-openblas", "OpenBLAS multiplies where MKL did", took)
