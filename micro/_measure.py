"""Rounds until the ratio is known: looks, rejection, clocks, the reason to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from micro._crew import Crew, stack
from micro._host import Look, Opened
from micro._plan import Case
from reports import stats

if TYPE_CHECKING:
    from kernels.problem import Array

CPU_CLOCK = 1e-3  # seconds of a visit from which one thread is timed by its own clock
LOST = 0.01  # share of a visit lost to others that rejects its round, below CPU_CLOCK
FOREIGN = 0.05  # cores busy with others that make a run of several threads contended
CONTENDED = 0.2  # share of rounds rejected, or of time lost, that marks a result
BREATH = 0.5  # seconds between two signs of life
ENOUGH = 32  # rounds of a case that is compared with nothing
FEW = 16  # a budget for fewer rounds has one look


@dataclass(frozen=True)
class Measurement:
    """Rounds × cases in the order taken, and what was said of them when they ended."""

    look: Look
    opened: Opened
    clocks: tuple[str, ...]
    rejected: Array
    judgments: tuple[stats.Judgment, ...]
    stopped: str
    once: bool
    seconds: float
    canary: dict[str, list[float]]

    @property
    def times(self) -> Array:
        """Seconds of one use, each case by its clock."""
        import numpy as np

        return np.where([clock == "cpu" for clock in self.clocks], self.look.cpu, self.look.wall)

    @property
    def accepted(self) -> Array:
        """Which rounds count: those not rejected, or all where too few are left for an interval."""
        import numpy as np

        few = int((~self.rejected).sum()) < stats.FEWEST
        return np.asarray(~self.rejected | few)

    def logs(self, baseline: int, contender: int) -> Array:
        """Logarithms of the ratio in each accepted round."""
        import numpy as np

        times: Any = self.times[self.accepted]
        logs: Array = np.log(times[:, contender] / times[:, baseline])
        return logs

    def lost(self, case: int) -> float:
        """Share of this case's rounds that were rejected or lost more than a hundredth of their time."""
        return float((self.rejected | (self.look.lost[:, case] > LOST)).mean())


def clocks(cases: Sequence[Case], opened: Opened) -> tuple[str, ...]:
    """Wall below a millisecond, where the CPU clock's half microsecond would show; above it, at one
    thread, processor time, which a busy neighbor does not move."""
    return tuple(
        "cpu" if call * launches >= CPU_CLOCK and case.setting.threads == 1 else "wall"
        for case, call, launches in zip(cases, opened.calls, opened.launches, strict=True)
    )


def measure(
    crew: Crew,
    pairs: Sequence[tuple[int, int]],
    seconds: float,
    target: float,
    margin: float,
    progress: Callable[[str], None],
    seed: int,
    rounds: int | None = None,
) -> Measurement:
    """Run rounds until the ratio of every pair of cases (baseline, contender) is known: looks double up to
    the budget of `seconds`. `rounds` fixes their number instead. Without a pair, ENOUGH rounds are taken."""
    import numpy as np

    patience = 60.0 + 2 * seconds
    opened = crew.open(patience)
    began = time.monotonic()
    affordable = rounds or int(seconds / max(opened.round, 1e-9))
    once = rounds is not None or affordable < FEW
    schedule: Sequence[int] = [max(1, affordable)] if once else stats.LOOKS
    rng = np.random.default_rng(seed)
    found = _Rounds(crew.cases, pairs, opened, margin, once)
    for goal in schedule:
        while (missing := goal - found.accepted) > 0:
            spent = time.monotonic() - began
            if found.looks and spent >= seconds * (1.3 if once else 1) and rounds is None:
                break
            chunk = max(1, min(missing, int(BREATH / max(opened.round, 1e-9))))
            found.take(crew.look(found.taken, chunk, rng, patience))
            progress(found.say())
        judgments = found.judge()
        spent = time.monotonic() - began
        if all(judgment.settled(target) for judgment in judgments) and (pairs or goal >= ENOUGH):
            return found.measurement(judgments, "the answer is known", spent)
        if spent >= seconds:
            return found.measurement(judgments, "the budget ran out", spent)
    why = "the budget ran out" if once else "the most rounds were taken"
    return found.measurement(found.judge(), why, time.monotonic() - began)


class _Rounds:
    """What has been taken so far."""

    def __init__(
        self,
        cases: Sequence[Case],
        pairs: Sequence[tuple[int, int]],
        opened: Opened,
        margin: float,
        once: bool,
    ) -> None:
        self.cases, self.pairs, self.opened, self.margin, self.once = cases, pairs, opened, margin, once
        self.clocks = clocks(cases, opened)
        self.looks: list[Look] = []
        self.canary: dict[str, list[float]] = {}
        self.judgments: tuple[stats.Judgment, ...] = ()

    @property
    def taken(self) -> int:
        return sum(len(look.wall) for look in self.looks)

    @property
    def accepted(self) -> int:
        return sum(int((~self.rejected(look)).sum()) for look in self.looks)

    def rejected(self, look: Look) -> Array:
        """Rounds in which a visit timed by the wall lost more than a hundredth of its time."""
        short = [clock == "wall" and case.setting.threads == 1 for clock, case in
                 zip(self.clocks, self.cases, strict=True)]  # fmt: skip
        return (look.lost[:, short] > LOST).any(axis=1)

    def take(self, look: Look) -> None:
        self.looks.append(look)
        for name, took in look.canary.items():
            self.canary.setdefault(name, []).append(took)

    def judge(self) -> tuple[stats.Judgment, ...]:
        whole = self.measurement((), "", 0.0)
        self.judgments = tuple(stats.judge(whole.logs(*pair), self.margin, self.once) for pair in self.pairs)
        return self.judgments

    def measurement(self, judgments: tuple[stats.Judgment, ...], stopped: str, seconds: float) -> Measurement:
        look = stack(self.looks)
        return Measurement(
            look,
            self.opened,
            self.clocks,
            self.rejected(look),
            judgments,
            stopped,
            self.once,
            seconds,
            self.canary,
        )

    def say(self) -> str:
        """`32 rounds, ratio ±0.8 %`."""
        halves = [j.shown.half for j in self.judgments if j.shown]
        width = f", ratio ±{max(halves):.2%}" if halves else ""
        return f"{self.taken} rounds{width}"
