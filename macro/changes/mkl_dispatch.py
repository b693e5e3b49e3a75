"""MKL takes kernels for its own vendor's processors, also elsewhere.

On another's it asks mkl_serv_intel_cpu_true, and where the answer is 0 takes its AVX2 kernels even where AVX-512 is
there; a function of that name that answers 1 is preloaded.
"""

from __future__ import annotations

from kernels.devices.cpu import vendor
from kernels.errors import SuiteError
from kernels.libs import preload
from macro.changes import _alone, _products
from macro.changes.base import Before, Change, Effect, Seen, Step

WORD = "mkl-intel"


def applies(step: Step, value: str) -> str | None:
    if WORD in preload.words(step.setting.preload):
        return "it is made already"
    if why := _products.is_mkl(step):
        return why
    if vendor() == "GenuineIntel":
        return "this processor is of MKL's own vendor"
    try:
        preload.variables(WORD)
    except SuiteError as error:
        return str(error)
    return None


def took(before: Before, after: Seen) -> Effect:
    if word := preload.missing([WORD], after.maps):
        return Effect(False, f"{word} is not mapped")
    was, now = _products.kernels(before.symbols), _products.kernels(after.symbols)
    if was and now and set(was) == set(now):
        return Effect(False, f"products are in {now[0]} as before")
    return Effect(True, f"{' '.join(was[:2]) or 'its kernel'} before, {' '.join(now[:2]) or 'another'} with it")


CHANGE = Change(
    "mkl-dispatch",
    "MKL takes the kernels that it has for its own vendor's processors",
    applies,
    lambda step, value: step.with_library(WORD),
    took,
    lambda asked: _alone.swapped(asked, "preload"),
    costs="the last bits of results",
)
