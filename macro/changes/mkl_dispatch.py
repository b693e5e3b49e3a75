"""MKL's kernels for its own vendor's processors, on others too.

On another vendor's, MKL calls mkl_serv_intel_cpu_true and, where it returns 0, takes its AVX2 kernels even where
AVX-512 is there; a function of that name that returns 1 is preloaded.
"""

from __future__ import annotations

from kernels.devices.cpu import vendor
from macro.changes import _products
from macro.changes.base import Before, Effect, Seen

VENDOR = "GenuineIntel"


def took(before: Before, after: Seen) -> Effect:
    return _products.others(before, after, "set")


CHANGE = _products.preloaded(
    "mkl-dispatch",
    "mkl-intel",
    "MKL takes the kernels that it has for its own vendor's processors",
    took,
    lambda: "this processor is of MKL's own vendor" if vendor() == VENDOR else None,
)
