"""Calls that cache what is derived from a filter: its spectrum, or a library's packed form of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernels.errors import Unavailable
from kernels.ops.conv.problem import Conv
from kernels.problem import Array
from kernels.setting import Setting

SAMPLES = 64  # elements by which a changed filter at the same address is detected


@dataclass
class Held:
    """The filter last seen, and the object derived from it, shared by all launches."""

    filter: object = None
    derived: object = None  # what `make` returned for this filter


def refuse_cold(setting: Setting) -> None:
    """Raise Unavailable if operands are to be cold (--cold), because a cached filter is not read."""
    if setting.cold:
        raise Unavailable("its cached filter cannot be made cold: remove --cold")


def reads_filter(problem: Conv) -> str | None:
    """Return why a problem has no filter to cache (wgrad computes it), or None if it has one."""
    if problem.direction == "wgrad":
        return "wgrad has no filter to cache: --direction forward or dgrad"
    return None


def keeping(
    w: Array, make: Callable[[], object], runs: Sequence[Callable[[], object]], held: Held
) -> Callable[[], object]:
    """Return a call of all `runs`, before which `make` runs if the filter changed since the last call."""
    flat = w.reshape(-1)
    some, where = flat[:: max(1, flat.size // SAMPLES)], w.ctypes.data

    def call() -> None:
        filter_now = where, some.tobytes()
        if held.filter != filter_now:
            held.derived = make()
            held.filter = filter_now
        for run in runs:
            run()

    return call
