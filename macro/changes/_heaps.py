"""What the allocator does with freed memory: page faults are what it costs, and the operating system's time theirs."""

from __future__ import annotations

from functools import partial

from kernels.errors import SuiteError
from kernels.heap import variables
from kernels.libs import preload
from macro.changes import _products
from macro.changes._alone import around
from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step

TUNABLES = "GLIBC_TUNABLES"
FEWER = 0.5  # of the page faults at most are left where freed memory is kept
FEW = 512  # page faults of a step that cost next to nothing


def brings(asked: Asked) -> Forecast:
    """The operating system's time of a plain step, in the share of its page faults that is gone."""
    before, after = asked.before, asked.after
    if before.faults < FEW and after.faults < FEW:
        return Forecast(parts=(around("page faults, of which there are none", 0.0, 0.002 * before.seconds),))
    if before.faults < FEW:
        return Forecast(why=f"{after.faults:.0f} page faults a step where there were {before.faults:.0f}")
    gone = 1 - after.faults / max(before.faults, 1.0)
    return Forecast((around("page faults", -gone * before.system, 0.05 * before.system),))


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
        f"heap-{word}", about, applies, lambda step, value: step.with_library(word), took, brings, costs="memory"
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
    return Change("heap-keep", about, applies, make, took, brings, costs="memory: what was freed stays mapped")


jemalloc, tcmalloc, mimalloc = (
    partial(allocator, word, f"{word} in place of glibc's malloc, preloaded")
    for word in ("jemalloc", "tcmalloc", "mimalloc")
)
