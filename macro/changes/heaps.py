"""Changes of the allocator and of huge pages: returned memory costs page faults, these system time."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

from kernels.errors import SuiteError
from kernels.heap import variables
from kernels.libs import preload
from kernels.ops.pages.problem import HUGE_PAGE, SMALL_PAGE
from macro.changes import _alone, _parts, products
from macro.changes.base import (
    FAULTS,
    BaselineProfile,
    Change,
    Effect,
    Forecast,
    Part,
    PredictionInput,
    ProcessSnapshot,
    Step,
)

MEASURED, BUDGET = 64 << 20, 2.0  # bytes and seconds of measuring the cost of new memory
TUNABLES = "GLIBC_TUNABLES"
KEEP = "heap=keep"  # trial of a running program, which keeps it from then on
NOTHING = 0.002  # error, as a share of a step, of a prediction without page faults
BESIDE = 0.3  # relative error of a fault's cost, by effects outside the system; from the pairs of docs/whatif.md
FEWER = 0.5  # largest share of the page faults that is left if freed memory is kept
CERTAIN = 3.0  # standard errors
FEW = 512  # so few page faults of a step cost next to nothing
MANY = 4096  # from so many page faults of a step on, system time shows their cost
HUGE = "glibc.malloc.hugetlb=1"  # exists since glibc 2.35
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SINCE = (2, 35)  # version of glibc with HUGE


def brings(asked: PredictionInput) -> Forecast:
    """Predict the seconds saved or added by the change of page faults."""
    return Forecast((faults(asked.before, asked.after),))


@cache
def new_memory(page: int) -> float:
    """Measure the seconds to map and unmap 4 KiB (without writing) in pages of `page`. Raises SuiteError."""
    options = {"what": "clear", "size": MEASURED, "page": page, "memory": "touched,mapped", "vary": "memory"}
    run = _alone.run("memory", options, BUDGET)
    seconds = {
        result.problem["memory"]: result.seconds.median
        for result in run.results
        if result.role == "measured" and result.seconds
    }
    if len(seconds) < 2:
        raise _alone.unmeasured(run.results)
    return (seconds["mapped"] - seconds["touched"]) / (MEASURED // SMALL_PAGE)


def beside(before: BaselineProfile, after: ProcessSnapshot, by_chance: bool = False) -> tuple[Part, ...]:
    """Return a part for page faults if a change of something else significantly changes them, else ().

    `by_chance`: of a script, whose processes differ in page faults by where their blocks happen to lie: any number
    between none and the most that were seen may come or go with a new process."""
    if by_chance:
        most = max(before.faults, after.faults)
        return (_parts.around(_parts.PAGE_FAULTS, 0.0, most * _cost(before), 0.0),) if most >= FEW else ()
    error = (before.faults_error**2 + after.faults_error**2) ** 0.5
    certain = abs(after.faults - before.faults) > max(CERTAIN * error, FEW)
    return (faults(before, after),) if certain else ()


def faults(before: BaselineProfile, after: ProcessSnapshot) -> Part:
    """Predict the change of a plain step's seconds by its page faults. Raises SuiteError.

    A fault costs the step's system time per fault or, if faults are few, the measured cost of new memory. The error
    BESIDE covers effects on caches and page tables; faults of several threads may serialize or overlap."""
    if before.faults < FEW and after.faults < FEW:
        return _parts.around("page faults (none)", 0.0, NOTHING * before.seconds)
    cost = _cost(before)
    each, apart = cost * (1 + 1 / before.threads) / 2, cost * (1 - 1 / before.threads) / 2
    more = after.faults - before.faults
    error = CERTAIN / 2 * each * (before.faults_error**2 + after.faults_error**2) ** 0.5
    half = math.hypot(error, BESIDE * more * each) + abs(more) * apart
    return _parts.around(_parts.PAGE_FAULTS, more * each, half, before.faults * each)


def _cost(before: BaselineProfile) -> float:
    """Return the seconds of a page fault: of the step's system time, or of new memory by itself where they are few."""
    return before.system / before.faults if before.faults >= MANY else new_memory(SMALL_PAGE)


def fewer_faults(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    """Return whether most page faults are gone, as expected if freed memory is kept.

    Only a few steps are observed, in which the heap may still grow, so the standard error counts in the change's favor.
    An unchanged process with few faults, by chance of its heap's layout, is no evidence for the next process."""
    counts = f"page faults per step: {before.faults:.0f} before, {after.faults:.0f} with the change"
    if before.faults < FEW:
        return Effect(True, f"{counts}; another process of the unchanged step may have more")
    return Effect(after.faults - after.faults_error <= max(FEW, FEWER * before.faults), counts)


def replaced(step: Step) -> bool:
    """Return whether another allocator than glibc's is preloaded, by the step's setting or environment."""
    return not {*preload.words(step.setting.preload), *preload.given()}.isdisjoint(preload.ALLOCATORS)


def allocator(word: str, about: str) -> Change:
    """Return the change that preloads allocator `word`."""

    def applies(step: Step, value: str) -> str | None:
        if replaced(step) or step.setting.heap != "default":
            return "the heap is not the default"
        if TUNABLES in step.setting.knobs.get("variables", {}):
            return f"{TUNABLES} configures glibc's allocator"
        return products.absent(word)

    def took(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        name, there = preload.library(word).name, preload.missing([word], after.maps) is None
        if preload.missing([word], before.maps) is None:
            return Effect(False, f"{name} is mapped without the change, too")
        return Effect(there, f"{name} is {'' if there else 'not '}mapped; {fewer_faults(before, after).evidence}")

    return Change(
        f"heap-{word}",
        about,
        applies,
        lambda step, value: step.with_library(word),
        took,
        brings,
        costs="memory",
        looks=(FAULTS,),
        alone=False,
    )


def keeps() -> Change:
    """Return the change to keep freed memory in glibc's malloc: M_MMAP_MAX 0, M_TRIM_THRESHOLD large."""

    def applies(step: Step, value: str) -> str | None:
        if step.setting.heap == "keep":
            return "the step already keeps freed memory"
        if TUNABLES in step.setting.knobs.get("variables", {}):
            return f"{TUNABLES} already configures the allocator"
        if replaced(step):
            return "the allocator is not glibc's"
        try:
            variables("keep")
        except SuiteError as error:
            return str(error)
        return None

    def took(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        effect = fewer_faults(before, after)
        if lacking := [name for name, value in variables("keep").items() if after.variables.get(name) != value]:
            return Effect(False, f"{lacking[0]} is not set in the process; {effect.evidence}")
        return effect

    return Change(
        "heap-keep",
        "glibc's malloc keeps freed memory: no mmap for large blocks, no trimming",
        applies,
        lambda step, value: replace(step, setting=replace(step.setting, heap="keep")),
        took,
        brings,
        costs="memory: freed blocks stay mapped",
        trial=KEEP,
        looks=(FAULTS,),
        alone=False,
    )


def _applies_huge(step: Step, value: str) -> str | None:
    if replaced(step):
        return "the allocator is not glibc's"
    if step.setting.heap == "keep":
        return "freed memory is kept, so no page faults are left to save"
    if TUNABLES in {**os.environ, **step.setting.knobs.get("variables", {})}:
        return f"{TUNABLES} is set already"
    if "[madvise]" not in _enabled():
        return f"{ENABLED} is {_enabled() or 'missing'}, not madvise"
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    if tuple(map(int, libc.rpartition(" ")[2].split(".")[:2])) < SINCE:
        return f"{libc} has no glibc.malloc.hugetlb"
    return None


def _enabled() -> str:
    try:
        return ENABLED.read_text("utf-8").strip()
    except OSError:
        return ""


def _took_huge(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    there, effect = after.variables.get(TUNABLES) == HUGE, fewer_faults(before, after)
    return Effect(there and effect.there, f"{TUNABLES} is {'' if there else 'not '}set; {effect.evidence}")


def _brings_huge(asked: PredictionInput) -> Forecast:
    """Predict the change by page faults, less the measured cost of the same memory in huge pages."""
    part = faults(asked.before, asked.after)
    left = 1 - new_memory(HUGE_PAGE) / new_memory(SMALL_PAGE)
    return Forecast((_parts.around(part.what, left * part.seconds, left * (part.high - part.seconds), part.of),))


CHANGES = (
    keeps(),
    *(allocator(word, f"{word} preloaded in place of glibc's malloc") for word in ("jemalloc", "tcmalloc", "mimalloc")),
    Change(
        "huge-pages",
        "glibc's malloc requests transparent huge pages",
        _applies_huge,
        lambda step, value: step.with_variables({TUNABLES: HUGE}),
        _took_huge,
        _brings_huge,
        costs="memory, in pages of 2 MiB",
        looks=(FAULTS,),
        alone=False,
    ),
)
