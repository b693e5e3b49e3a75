"""Waits of threads, from the context switches that perf recorded.

A thread pushed aside by others does not wait; one without a switch ran throughout if it has samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from macro.watching.perf import Switch


def waits(
    switches: Sequence[Switch], sampled: set[int], threads: int, start: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """Yield intervals in which some of `threads` waited: from, to, how many.
    `sampled`: threads that have samples."""
    first: dict[int, str] = {}
    for switch in switches:
        first.setdefault(switch.thread, switch.state)
    active = {thread for thread, state in first.items() if state != "in"} | (sampled - set(first))
    at = start
    for switch in switches:
        if len(active) < threads and switch.time > at:
            yield at, switch.time, threads - len(active)
        at = switch.time
        if switch.state == "out":
            active.discard(switch.thread)
        else:
            active.add(switch.thread)  # it runs, or would
    if len(active) < threads and end > at:
        yield at, end, threads - len(active)
