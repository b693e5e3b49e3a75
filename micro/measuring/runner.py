"""A contest from its plan to its record: check, open, rounds, judge, record."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from kernels.devices import kind_of
from kernels.errors import KernelError, NoRoom, Unavailable, WrongResult
from micro.measuring import ceilings as case_ceilings
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks, Outcome
from micro.measuring.results import Finished
from micro.measuring.rounds import Goal, Measurement, TooSlow, measure
from micro.measuring.workers import ContestWorkers
from micro.planning.contest import Budget, Case, Contest
from micro.planning.repeat import Repeat
from reports import next_run, record

if TYPE_CHECKING:
    from kernels.devices.base import Limits

MEMORY_MARGIN = 0.04


@dataclass(frozen=True)
class Runner:
    """Context shared by all contests of a command."""

    checks: Checks
    limits: Mapping[str, Limits]  # by device name
    history: History
    repeat: Repeat = field(default_factory=Repeat)  # writes the command that measures a case again
    seed: int = 0
    between: Mapping[str, next_run.Spread] = field(default_factory=dict)  # spread between runs, by path

    def fresh(self, number: int) -> Runner:
        """Return a runner for run `number`, with new workers, checks and placements."""
        self.checks.workers.end()
        checks = replace(self.checks, outcomes={}, answered=set())
        return replace(self, checks=checks, seed=self.seed ^ zlib.crc32(f"run {number}".encode()) >> 1)

    def run(
        self,
        contest: Contest,
        seconds: float,
        budget: Budget,
        left: float = 0.0,
        interrupted: Callable[[record.Contest], None] | None = None,
    ) -> record.Contest:
        """Measure a contest and return its record: a result per case, a comparison per pair.

        `left`: seconds that the contest may take if its share pays for no interval. `interrupted` receives the record
        of the rounds until an interrupt, which is then raised again."""
        began = time.monotonic()
        outcomes = [self._outcome(case) for case in contest.cases]
        setup = time.monotonic() - began
        margin = self._margin(contest, budget)
        goal = Goal(seconds, budget.target, margin, left=left)

        def finished(cases: Sequence[Case], measurement: Measurement | None) -> record.Contest:
            remarks = (
                (*self._slow(contest, measurement), *self._broken_ceilings(contest, outcomes)) if measurement else ()
            )
            ceilings = [case for case in cases if case.role == "ceiling"]
            rest = self.limits, self.repeat, self.checks.evidence
            until = self.checks.until
            done = Finished(contest, outcomes, measurement, ceilings, remarks, goal, until, setup, *rest).to_record()
            done = replace(done, seconds={**done.seconds, "wall": time.monotonic() - began})
            return next_run.foreseen(done, self.between)

        def cut_short(cases: Sequence[Case], measurement: Measurement) -> None:
            if interrupted:
                interrupted(replace(finished(cases, measurement), interrupted=True))

        measured: tuple[ContestWorkers, Measurement] | None = None
        while self.checks.until == "time" and self._checked_again(contest, outcomes) and measured is None:
            measured = self._measured(contest, outcomes, goal, cut_short)
        return finished(measured[0].cases, measured[1]) if measured else finished((), None)

    def _slow(self, contest: Contest, measurement: Measurement) -> list[str]:
        """Return a warning if the host is slower than before; else add the canaries to the history."""
        scripted = any(kind_of(case.setting.device).scripted for case in contest.cases)
        if scripted or not measurement.canary:
            return []
        if slow := self.history.slow(measurement.canary_medians):
            return [f"contended: {slow}"]
        self.history.remember(measurement.canary_medians)
        return []

    def _checked_again(self, contest: Contest, outcomes: list[Outcome]) -> list[int]:
        """Return the indices of the cases that passed, each checked in the worker that is to time it.

        Cases checked in a worker that died are checked again, as often as a worker dies."""
        while stale := [i for i in _alive(outcomes) if not self.checks.holds(contest.cases[i])]:
            for i in stale:
                again = self._outcome(contest.cases[i])
                if again.status == "skipped":  # it ran before, so its device is gone
                    again = replace(again, status="failed", reason=f"while timed: {again.reason}")
                outcomes[i] = again
        return _alive(outcomes)

    def _outcome(self, case: Case) -> Outcome:
        return self.checks.outcome(case, zlib.crc32(case.problem.drawn.name.encode()) ^ self.seed)

    def _measured(
        self,
        contest: Contest,
        outcomes: list[Outcome],
        goal: Goal,
        interrupted: Callable[[Sequence[Case], Measurement], None],
    ) -> tuple[ContestWorkers, Measurement] | None:
        """Measure the cases that passed; if a case dies or is left out, update its outcome, return None."""
        alive = _alive(outcomes)
        survivors = [contest.cases[i] for i in alive]
        seed = zlib.crc32(contest.name.encode()) ^ self.seed
        crew = ContestWorkers(self.checks.workers, (*survivors, *self.ceilings(survivors)), seed)
        measurement = None
        try:
            pairs = _renumbered(contest, alive)
            measurement = measure(
                crew,
                pairs,
                goal,
                self.checks.progress,
                sparing=contest.sparing,
                interrupted=partial(interrupted, crew.cases),
            )
        except TooSlow as slow:
            for i, times in slow.times.items():
                about = f"about {times:.0f} times {survivors[0].variant}'s time"
                reason = f"left out to save time for the others: {about}"
                outcomes[alive[i]] = replace(outcomes[alive[i]], status="skipped", reason=reason)
        except (KernelError, Unavailable, MemoryError) as error:
            failed = Outcome("failed", f"while timed: {error}")
            if isinstance(error, WrongResult):
                failed = Outcome("wrong", str(error))
            elif isinstance(error, NoRoom):  # no fault of a kernel's
                failed = Outcome("skipped", str(error))
            if crew.culprit >= len(survivors):  # this ceiling is not used from now on
                self.checks.outcomes[crew.cases[crew.culprit]] = failed
            else:  # if no case can be named, all fail
                for i in [alive[crew.culprit]] if crew.culprit >= 0 else alive:
                    outcomes[i] = replace(outcomes[i], status=failed.status, reason=failed.reason)
                    if failed.status == "wrong" and crew.culprit >= 0:  # it is wrong in later contests too
                        self.checks.outcomes[contest.cases[i]] = outcomes[i]
        with suppress(KernelError, Unavailable):  # the measurement is complete, whatever dies now
            crew.close()
        return (crew, measurement) if measurement else None

    def ceilings(self, cases: Sequence[Case]) -> list[Case]:
        """Return the ceilings of these cases; [] if they are turned off.

        A doubtful ceiling must pass its check here; a ceiling that failed while it was timed is left out."""
        if not self.checks.bounded:
            return []
        ceilings = case_ceilings.cases(cases, self.limits)
        trusted = [not case_ceilings.doubtful(x) and x not in self.checks.outcomes for x in ceilings]
        return [
            x
            for x, fine in zip(ceilings, trusted, strict=True)
            if fine or self.checks.outcome(x, self.seed).status == "ran"
        ]

    def _broken_ceilings(self, contest: Contest, outcomes: Sequence[Outcome]) -> list[str]:
        """Return a message on each failed ceiling of the measured cases, with the reason."""
        cases = case_ceilings.cases([contest.cases[i] for i in _alive(outcomes)], self.limits)
        checked = [(case, outcome) for case in cases if (outcome := self.checks.outcomes.get(case))]
        return [
            f"no ceiling by {case.problem.name}: {outcome.status}: {outcome.reason}"
            for case, outcome in checked
            if outcome.status != "ran"
        ]

    def _margin(self, contest: Contest, budget: Budget) -> float:
        given = budget.margin if budget.margin is not None else contest.margin
        if given is not None:
            return given
        problems = [(c.problem, self.limits.get(c.setting.device)) for c in contest.cases]
        bound = any(x is not None and case_ceilings.memory_bound(problem, x.usable_cache) for problem, x in problems)
        return max(MEMORY_MARGIN, budget.target) if bound else budget.target


def _alive(outcomes: Sequence[Outcome]) -> list[int]:
    """Return the indices of the cases that passed their check and have not failed since."""
    return [i for i, outcome in enumerate(outcomes) if outcome.status == "ran"]


def _renumbered(contest: Contest, alive: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs whose cases both survived, by their indices among the survivors."""
    place = {old: new for new, old in enumerate(alive)}
    return [(place[a], place[b]) for a, b in contest.comparisons if a in place and b in place]
