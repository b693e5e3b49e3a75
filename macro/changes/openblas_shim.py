"""OpenBLAS multiplies where MKL did: sgemm_ is preloaded."""

from __future__ import annotations

from kernels.errors import SuiteError
from kernels.libs import preload
from macro.changes import _alone, _products
from macro.changes.base import Before, Change, Effect, Seen, Step

WORD = "sgemm-openblas"


def applies(step: Step, value: str) -> str | None:
    if WORD in preload.words(step.setting.preload):
        return "it is made already"
    if why := _products.is_mkl(step):
        return why
    try:
        preload.variables(WORD)
    except SuiteError as error:
        return str(error)
    return None


def took(before: Before, after: Seen) -> Effect:
    if word := preload.missing([WORD], after.maps):
        return Effect(False, f"{word} is not mapped")
    there = "openblas" in after.maps.replace("sgemm_openblas", "")
    return Effect(there, f"OpenBLAS is {'' if there else 'not '}mapped, which the first sgemm_ that it answers does")


CHANGE = Change(
    "openblas-shim",
    "OpenBLAS multiplies where MKL did",
    applies,
    lambda step, value: step.with_library(WORD),
    took,
    lambda asked: _alone.swapped(asked, "preload"),
    costs="the last bits of results",
)
