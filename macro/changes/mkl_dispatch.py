"""MKL takes kernels for its own vendor's processors, also elsewhere.

On another's it asks mkl_serv_intel_cpu_true, and where the answer is 0 takes its AVX2 kernels even where AVX-512 is
there; a function of that name that answers 1 is preloaded.
"""

from __future__ import annotations

from kernels.devices.cpu import vendor
from kernels.libs import preload
from macro.changes import _parts, _products
from macro.changes.base import Before, Change, Effect, Seen, Step

WORD, VENDOR = "mkl-intel", "GenuineIntel"


def applies(step: Step, value: str) -> str | None:
    if why := _products.applies(step, WORD):
        return why
    return "this processor is of MKL's own vendor" if vendor() == VENDOR else None


def took(before: Before, after: Seen) -> Effect:
    if word := preload.missing([WORD], after.maps):
        return Effect(False, f"{word} is not mapped")
    return _products.others(before, after, "set")


CHANGE = Change(
    "mkl-dispatch",
    "MKL takes the kernels that it has for its own vendor's processors",
    applies,
    lambda step, value: step.with_library(WORD),
    took,
    lambda asked: _parts.swapped(asked, "preload"),
    costs="the last bits of results",
)
