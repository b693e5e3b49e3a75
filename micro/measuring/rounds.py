"""Rounds until a ratio is known: batches of rounds, rejection, clocks, the reason to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from micro.measuring.clocks import clocks, rejects
from micro.measuring.workers import ContestWorkers, stack
from micro.planning.contest import Case
from micro.worker.messages import ContestCost, RoundBatch
from reports import stats
from reports.units import counted

if TYPE_CHECKING:
    from kernels.problem import Array

LOST = 0.01  # share of a sample lost to other processes that rejects its round, on the wall clock
FOREIGN = 0.05  # cores busy with other processes that make a run of several threads contended
CONTENDED = 0.2  # share of rounds rejected or disturbed from which on a result is contended
BREATH = 0.5  # seconds between two progress messages
ENOUGH = 32  # rounds of a case that is compared with nothing
REJECTIONS = 8  # most rounds taken per accepted round
SLOW = 10.0  # multiple of the first case's time from which on a sparing contest leaves a case out
OVERRUN = 1.1  # share of its budget that a contest of few rounds may take, as their cost was estimated


@dataclass(frozen=True)
class Measurement:
    """Rounds of a contest in the order taken, with judgments of its pairs; arrays are [rounds, cases]."""

    look: RoundBatch  # all batches, joined
    opened: ContestCost
    clocks: tuple[str, ...]  # of each case
    rejected: Array  # mask of rounds
    judgments: dict[tuple[int, int], stats.Judgment]  # of each pair, after the last round
    stopped: str  # why the rounds ended
    seconds: float  # until the rounds ended
    canary: dict[str, list[float]]  # medians of each batch, by canary

    @property
    def times(self) -> Array:
        """Seconds of one use, by the contest's clock: the wall, or processor time plus voluntary waits."""
        import numpy as np

        return np.where([clock == "cpu" for clock in self.clocks], self.look.cpu, self.look.wall)

    @property
    def undisturbed(self) -> Array:
        """`times`, but processor time in samples that lost wall time, for ceilings.

        Ceilings reject no round, and others must not lower them. The CPU clock adds 1 % to a sample of 60 µs."""
        import numpy as np

        disturbed = (self.look.lost > LOST) & np.isfinite(self.look.cpu)
        return np.where(disturbed, self.look.cpu, self.times)

    @property
    def accepted(self) -> Array:
        """Mask of the rounds that count for ratios: those not rejected, however few."""
        kept: Array = ~self.rejected
        return kept

    @property
    def timed(self) -> Array:
        """Mask of the rounds that count for times: the accepted ones, or all if none was accepted."""
        import numpy as np

        kept: Any = self.accepted
        return kept if kept.any() else np.ones_like(kept)

    def logs(self, baseline: int, contender: int) -> Array:
        """Return the logarithm of contender over baseline in each accepted round."""
        import numpy as np

        times: Any = self.times[self.accepted]
        logs: Array = np.log(times[:, contender] / times[:, baseline])
        return logs

    def lost(self, case: int) -> float:
        """Share of this case's rounds that were rejected or lost more than a hundredth of their time."""
        return float((self.rejected | (self.look.lost[:, case] > LOST)).mean())

    def waits(self, case: int) -> float:
        """Share of its time that a case waited voluntarily; the wait counts."""
        took = float(self.times[:, case].sum())
        return self.look.waits[case] / took if self.look.waits and took else 0.0

    @property
    def canary_medians(self) -> dict[str, float]:
        """Median seconds of each canary."""
        import numpy as np

        return {name: float(np.median(x)) for name, x in self.canary.items()}

    def holds(self, case: int) -> Iterator[str]:
        """Yield remarks on the held stream, which keeps a GPU's launch gaps out of a case's time."""
        look = self.look
        if look.broken and look.broken[case]:
            yield (
                f"its held stream was released early in {look.broken[case]} visits, which were rejected: "
                f"{look.launches[case]} launches per visit since then"
            )
        if look.unheld and look.unheld[case]:
            yield "one launch has more kernels than a held stream can queue: its time includes launch overhead"


@dataclass(frozen=True)
class Goal:
    """Conditions under which a contest may stop."""

    seconds: float  # budget
    target: float  # half width to which every ratio must be known
    margin: float  # of the verdicts: the ratio less one from which on a difference counts
    rounds: int | None = None  # fixed number of rounds, in place of the budget
    left: float = 0.0  # seconds that a contest may take if its share pays for no interval


def affordable(goal: Goal, opened: ContestCost) -> int:
    """Return the fixed number of rounds, or else the number that the budget pays for.

    If the budget pays for too few for an interval, all remaining seconds count, up to a first batch of rounds."""

    def paid(seconds: float) -> int:
        return int((seconds - opened.beside) / max(opened.round, 1e-9))

    count = paid(goal.seconds)
    return goal.rounds or (count if count >= stats.FEWEST else max(count, min(paid(goal.left), stats.LOOKS[0])))


def one_look(goal: Goal, opened: ContestCost) -> bool:
    """Report whether all rounds form one batch: their number is fixed, or few are affordable."""
    return goal.rounds is not None or affordable(goal, opened) < stats.FEW


class TooSlow(Exception):
    """Cases too slow to share a contest. `times`: their ratios to the first case, by index."""

    def __init__(self, times: Mapping[int, float]) -> None:
        super().__init__(f"{len(times)} cases take over {SLOW:g} times as long as the first")
        self.times = times


def slow(cases: Sequence[Case], opened: ContestCost, goal: Goal) -> list[int]:
    """Return the indices of cases that seem far slower than the first; [] if many rounds are affordable.

    A long case's time is only that of its first call, which may have been slow for another reason."""
    if goal.rounds or affordable(goal, opened) >= stats.FEW:
        return []
    uses = [visit / launches for visit, launches in zip(opened.visits, opened.launches, strict=True)]
    return [i for i, use in enumerate(uses) if cases[i].role == "measured" and use > SLOW * uses[0]]


def _spare(rounds: _Rounds, crew: ContestWorkers, suspects: Sequence[int], patience: float) -> None:
    """Confirm slow suspects by two rounds; raise TooSlow, or keep those rounds."""
    rounds.take(crew.run_rounds(0, 2, patience))
    least = rounds.looks[0].wall.min(axis=0)
    times = {i: float(least[i] / least[0]) for i in suspects}
    if surely := {i: ratio for i, ratio in times.items() if ratio > SLOW}:
        raise TooSlow(surely)


def measure(
    crew: ContestWorkers,
    pairs: Sequence[tuple[int, int]],
    goal: Goal,
    progress: Callable[[str], None],
    *,
    sparing: bool = False,
    interrupted: Callable[[Measurement], None] | None = None,
) -> Measurement:
    """Run rounds until the ratio of every pair (baseline, contender) is known or the budget ends.

    Batches double. Without a pair, ENOUGH rounds are taken. `sparing`: raise TooSlow for cases far slower than the
    first. `interrupted` receives the rounds until an interrupt, which is then raised again."""
    opened = crew.open(60.0 + 2 * goal.seconds)
    once = one_look(goal, opened)
    rounds = _Rounds(crew.cases, pairs, opened, goal.margin, once)
    if sparing and (suspects := slow(crew.cases, opened, goal)):
        _spare(rounds, crew, suspects, 60.0 + 2 * goal.seconds)
    pace = _Pace(crew, rounds, goal, progress, once)
    try:
        return rounds.measurement(_stopped(rounds, pace, goal, once), pace.spent())
    except (KeyboardInterrupt, SystemExit):
        if interrupted and rounds.looks:
            rounds.judge()
            interrupted(rounds.measurement(f"interrupted after {counted(rounds.taken, 'round')}", pace.spent()))
        raise


def _stopped(rounds: _Rounds, pace: _Pace, goal: Goal, once: bool) -> str:
    """Take rounds, batch by batch, and return why they ended."""
    looks = stats.looks(rounds.opened.round) if rounds.pairs else stats.LOOKS
    for wanted in [max(1, affordable(goal, rounds.opened))] if once else looks:
        pace.reach(wanted)
        settled = all(judgment.settled(goal.target) for judgment in rounds.judge().values())
        if settled and (rounds.pairs or wanted >= ENOUGH):
            return "the answer is known"
        if once or pace.full():
            return "the budget ran out"
    return "the maximum number of rounds was reached"


class _Pace:
    """Pacing of rounds: as many per request as fit between two progress messages and into the budget.

    Until there are enough rounds for an interval, all remaining seconds count. Fixed rounds have no limit of time."""

    def __init__(
        self, crew: ContestWorkers, rounds: _Rounds, goal: Goal, progress: Callable[[str], None], once: bool
    ) -> None:
        self._crew, self._rounds, self._progress = crew, rounds, progress
        self._patience = 60.0 + 2 * goal.seconds
        self._began = time.monotonic()
        self._limit = self._began + (math.inf if goal.rounds else goal.seconds * (OVERRUN if once else 1))
        self._last = max(self._limit, self._began + goal.left)

    def spent(self) -> float:
        """Seconds since measuring began."""
        return time.monotonic() - self._began

    def _took(self) -> float:
        """Mean seconds of a round so far."""
        return self.spent() / self._rounds.taken if self._rounds.taken else self._rounds.opened.round

    def full(self) -> bool:
        """Report whether not even one more round fits into the budget."""
        enough, opened = self._rounds.taken >= stats.FEWEST, self._rounds.opened
        left = (self._limit if enough else self._last) - time.monotonic()
        return left <= 0 or (self._rounds.accepted >= stats.FEWEST and left < opened.beside + self._took())

    def reach(self, count: int) -> None:
        """Take rounds until `count` are accepted, the budget is spent, or too many are rejected."""
        rounds, last = self._rounds, -math.inf
        most = rounds.taken + REJECTIONS * count
        while (missing := count - rounds.accepted) > 0 and (not rounds.looks or not self.full()):
            if rounds.taken >= most:
                return  # a machine that rejects every round would never end
            # A request takes no longer than BREATH, nor than the budget.
            longest = min(BREATH, max(self._limit - time.monotonic(), 0.0)) if rounds.taken else BREATH
            chunk = max(1, min(missing, int(longest / max(self._took(), rounds.opened.round, 1e-9))))
            # Canaries run with the first request, then at most once per BREATH.
            canary = (now := time.monotonic()) - last >= BREATH
            rounds.take(self._crew.run_rounds(rounds.taken, chunk, self._patience, canary))
            last = now if canary else last
            self._progress(rounds.say())


class _Rounds:
    """The rounds taken so far, with their rejections, canaries and judgments."""

    def __init__(
        self, cases: Sequence[Case], pairs: Sequence[tuple[int, int]], opened: ContestCost, margin: float, once: bool
    ) -> None:
        self.cases, self.pairs, self.opened, self.margin, self.once = cases, pairs, opened, margin, once
        self.clocks = clocks(cases, opened)
        self._rejecting = list(map(rejects, cases, self.clocks, opened.visits))
        self.looks: list[RoundBatch] = []
        self.canary: dict[str, list[float]] = {}
        self.judgments: dict[tuple[int, int], stats.Judgment] = {}

    @property
    def taken(self) -> int:
        return sum(len(look.wall) for look in self.looks)

    @property
    def accepted(self) -> int:
        return sum(int((~self.rejected(look)).sum()) for look in self.looks)

    def rejected(self, look: RoundBatch) -> Array:
        """Mask of rounds in which a sample lost over a hundredth of its time, or a GPU's clock was lowered."""
        import numpy as np

        lost: Array = look.lost[:, self._rejecting]
        rejected: Any = (lost > LOST).any(axis=1)
        return np.asarray(rejected)

    def take(self, look: RoundBatch) -> None:
        self.looks.append(look)
        for name, took in look.canary.items():
            self.canary.setdefault(name, []).append(took)

    def judge(self) -> dict[tuple[int, int], stats.Judgment]:
        so_far = self.measurement("", 0.0)
        self.judgments = {(a, b): stats.judge(so_far.logs(a, b), self.margin, self.once) for a, b in self.pairs}
        return self.judgments

    def measurement(self, stopped: str, seconds: float) -> Measurement:
        look = stack(self.looks)
        return Measurement(
            look, self.opened, self.clocks, self.rejected(look), self.judgments, stopped, seconds, self.canary
        )

    def say(self) -> str:
        """Format the progress: `32 rounds, ratio ±0.8 %`."""
        halves = [j.shown.half for j in self.judgments.values() if j.shown]
        width = f", ratio ±{max(halves):.2%}" if halves else ""
        return f"{self.taken} rounds{width}"
