"""The clock of a contest, and the samples whose preemption rejects their round."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.devices import kind_of
from micro.planning.contest import Case
from micro.worker.messages import ContestCost

CPU_CLOCK = 1e-3  # seconds of the shortest sample from which one-thread contests use the processor's clock
ALWAYS = 4e-3  # seconds of the longest sample from which on other processes interrupt every round


def clocks(cases: Sequence[Case], opened: ContestCost) -> tuple[str, ...]:
    """Return the clock of each case: one for all CPU cases, chosen by their calibrated samples.

    Samples below a millisecond take the wall clock, as the half microsecond of reading the CPU clock would show; longer
    samples take processor time plus voluntary waits, which other processes do not change. A contest with a sample so
    long that it is interrupted in every round takes processor time too, however short its shortest sample. With several
    threads, or on a system that cannot separate waits from losses, the clock is the wall. A device with a separate
    clock is timed by that clock, the caller's cost by the wall."""
    measured = [
        visit
        for case, visit in zip(cases, opened.visits, strict=True)
        if case.role == "measured" and not kind_of(case.setting.device).own_clock
    ]
    several = any(case.setting.threads > 1 for case in cases)
    long = bool(measured) and (min(measured) >= CPU_CLOCK or max(measured) >= ALWAYS)
    processor = "cpu" if long and opened.queues and not several else "wall"

    def clock(case: Case) -> str:
        device = kind_of(case.setting.device)
        if device.own_clock:
            return "wall" if case.problem.on_host else device.clock
        return processor

    return tuple(map(clock, cases))


def rejects(case: Case, clock: str, visit: float) -> bool:
    """Report whether time lost in this case's sample rejects the round.

    It does for a measured one-thread case on a device's clock, or on the wall clock unless its samples are so long that
    other processes interrupt each."""
    if case.role != "measured" or case.setting.threads > 1:
        return False
    return kind_of(case.setting.device).own_clock or (clock == "wall" and visit < ALWAYS)
