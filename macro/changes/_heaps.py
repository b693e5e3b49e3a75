"""What the allocator does with freed memory: page faults are what it costs, and the operating system's time theirs."""

from __future__ import annotations

from functools import partial

from kernels.errors import SuiteError
from kernels.heap import variables
from kernels.libs import preload
from macro.changes import _products
from macro.changes._alone import around
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Part, Seen, Step

TUNABLES = "GLIBC_TUNABLES"
NOTHING = 0.002  # of a step
BESIDE = 0.25  # of the operating system's time at page faults
FEWER = 0.5  # of the page faults at most are left where freed memory is kept
FEW = 512  # page faults of a step that cost next to nothing


def brings(asked: Asked) -> Forecast:
    """What of page faults goes, or comes."""
    before, after = asked.before, asked.after
    if before.faults < FEW <= after.faults:
        return Forecast(why=f"{after.faults:.0f} page faults a step where there were {before.faults:.0f}")
    return Forecast((faults(before, after),))


def faults(before: Before, after: Seen) -> Part:
    """The operating system's time of a plain step follows its page faults. What they cost the program itself, whose
    caches and table of pages they disturb, nobody measured alone: it may be a quarter of that more or less."""
    if before.faults < FEW and after.faults < FEW:
        return around("page faults, of which there are none", 0.0, NOTHING * before.seconds)
    change = (after.faults / max(before.faults, float(FEW)) - 1) * before.system
    return around("page faults", change, BESIDE * abs(change))


def fewer_faults(before: Before, after: Seen) -> Effect:
    """Freed memory is kept: most page faults are gone, or there were none."""
    told = f"{before.faults:.0f} page faults a step before, {after.faults:.0f} with it"
    return Effect(after.faults <= max(FEW, FEWER * before.faults), told)


def allocator(word: str, about: str) -> Change:
    """Another one, preloaded."""

    def applies(step: Step, value: str) -> str | None:
        if set(preload.words(step.setting.preload)) & set(preload.ALLOCATORS) or step.setting.heap != "default":
            return "its heap is not the default any more"
        if TUNABLES in step.setting.knobs.get("variables", {}):
            return f"{TUNABLES} steers glibc's"
        return _products.absent(word)

    def took(before: Before, after: Seen) -> Effect:
        there = preload.missing([word], after.maps) is None
        return Effect(
            there,
            f"{preload.library(word).name} is {'' if there else 'not '}mapped; {fewer_faults(before, after).evidence}",
        )

    return Change(
        f"heap-{word}",
        about,
        applies,
        lambda step, value: step.with_library(word),
        took,
        brings,
        costs="memory",
        heap=True,
    )


def keeps() -> Change:
    """glibc's, which gives nothing back."""
    from dataclasses import replace

    def applies(step: Step, value: str) -> str | None:
        if step.setting.heap == "keep":
            return "it keeps freed memory already"
        if TUNABLES in step.setting.knobs.get("variables", {}):
            return f"{TUNABLES} steers it already"
        if set(preload.words(step.setting.preload)) & set(preload.ALLOCATORS):
            return "its allocator is not glibc's"
        try:
            variables("keep")
        except SuiteError as error:
            return str(error)
        return None

    def make(step: Step, value: str) -> Step:
        return replace(step, setting=replace(step.setting, heap="keep"))

    def took(before: Before, after: Seen) -> Effect:
        found = fewer_faults(before, after)
        if lacking := [name for name, value in variables("keep").items() if after.variables.get(name) != value]:
            return Effect(False, f"{lacking[0]} is not in its environment; {found.evidence}")
        return found

    about = "glibc's malloc keeps freed memory: no block mapped for itself, none given back"
    return Change(
        "heap-keep", about, applies, make, took, brings, costs="memory: what was freed stays mapped", heap=True
    )


jemalloc, tcmalloc, mimalloc = (
    partial(allocator, word, f"{word} in place of glibc's malloc, preloaded")
    for word in ("jemalloc", "tcmalloc", "mimalloc")
)
