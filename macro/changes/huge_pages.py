"""Transparent huge pages for glibc's malloc: glibc.malloc.hugetlb=1, of glibc 2.35 and later."""

from __future__ import annotations

import os
from pathlib import Path

from kernels.ops.pages.problem import HUGE_PAGE, SMALL_PAGE
from macro.changes import _parts, heaps
from macro.changes.base import FAULTS, Asked, Before, Change, Effect, Forecast, Seen, Step

NAME, VALUE = heaps.TUNABLES, "glibc.malloc.hugetlb=1"
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SINCE = (2, 35)


def applies(step: Step, value: str) -> str | None:
    if heaps.replaced(step):
        return "its allocator is not glibc's"
    if step.setting.heap == "keep":
        return "freed memory is kept: there are no page faults to save"
    if NAME in {**os.environ, **step.setting.knobs.get("variables", {})}:
        return f"{NAME} is set already"
    if "[madvise]" not in _enabled():
        return f"{ENABLED} is {_enabled() or 'not there'}, not madvise"
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    if tuple(map(int, libc.rpartition(" ")[2].split(".")[:2])) < SINCE:
        return f"{libc} has no such tunable"
    return None


def _enabled() -> str:
    try:
        return ENABLED.read_text("utf-8").strip()
    except OSError:
        return ""


def took(before: Before, after: Seen) -> Effect:
    there, effect = after.variables.get(NAME) == VALUE, heaps.fewer_faults(before, after)
    return Effect(there and effect.there, f"{NAME} is {'' if there else 'not '}set; {effect.evidence}")


def brings(asked: Asked) -> Forecast:
    """Predict the page faults that go, less what the same memory costs in large pages.
    The costs in large and in small pages are measured alone."""
    part = heaps.faults(asked.before, asked.after)
    left = 1 - heaps.new_memory(HUGE_PAGE) / heaps.new_memory(SMALL_PAGE)
    return Forecast((_parts.around(part.what, left * part.seconds, left * (part.high - part.seconds), part.of),))


CHANGE = Change(
    "huge-pages",
    "glibc's malloc asks for transparent huge pages",
    applies,
    lambda step, value: step.with_variables({NAME: VALUE}),
    took,
    brings,
    costs="memory, in pieces of 2 MiB",
    looks=(FAULTS,),
    alone=False,
)
