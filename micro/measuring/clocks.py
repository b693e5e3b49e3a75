"""Which clock a contest has, and which visits, preempted by other processes, reject their round."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.devices import kind_of
from micro.planning.contest import Case
from micro.worker.messages import ContestCost

CPU_CLOCK = 1e-3  # seconds of its shortest visit from which a contest of one thread is timed by the processor's clock
ALWAYS = 4e-3  # and of its longest: a neighbor stops such a visit in every round, as often as it is taken


def clocks(cases: Sequence[Case], opened: ContestCost) -> tuple[str, ...]:
    """One clock a contest, chosen once from the calibrated visits of what is compared in it, and by its bounds as well:
    the wall where visits are shorter than a millisecond, where the CPU clock's half microsecond would show; else
    processor time of the whole process and its own waits, which a busy neighbor does not move. A contest with a visit
    that a neighbor stops in every round takes that, however short its shortest is: there are times between them.
    With several threads the wall, and also where this system does not tell waits from losses. What a device with a
    clock of its own does is timed by that; what a call costs its caller, by the wall."""
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
    """Whether a round is rejected for what this case's visit lost: where it is timed by the wall, but for visits that a
    neighbor stops in every round, and whatever a device's own clock timed."""
    if case.role != "measured" or case.setting.threads > 1:
        return False
    return kind_of(case.setting.device).own_clock or (clock == "wall" and visit < ALWAYS)
