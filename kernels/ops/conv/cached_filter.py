"""Calls that keep what was made of a filter: its spectrum, or what a library makes of it when it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.errors import Unavailable

if TYPE_CHECKING:
    from kernels.ops.conv.problem import Conv
    from kernels.problem import Array
    from kernels.setting import Setting


SAMPLES = 64  # elements of a kept filter by which another one is told at the same place


@dataclass
class Held:
    """The filter of which all launches have what was made, and by a library what it made."""

    filter: object = None
    derived: object = None


def refuse_cold(setting: Setting) -> None:
    """Raises Unavailable."""
    if setting.cold:
        raise Unavailable("keeps what it makes of the filter, which no launch does before a cold one: no --cold")


def reads_filter(problem: Conv) -> str | None:
    """Why there is none to keep."""
    if problem.direction == "wgrad":
        return "reads no filter of which something could be kept: --direction forward or dgrad"
    return None


def keeping(
    w: Array, make: Callable[[], object], runs: Sequence[Callable[[], object]], held: Held
) -> Callable[[], object]:
    """A call that makes it only where another filter was there last."""
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
