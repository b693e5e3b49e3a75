"""Conversion of a finished contest to its record: a result per case, a comparison per pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from kernels.catalog import find
from kernels.devices import kind_of
from micro.measuring import ceilings as case_ceilings
from micro.measuring.checks import Outcome
from micro.measuring.rounds import CONTENDED, FOREIGN, Goal, Measurement, one_look
from micro.planning.contest import Case, Contest
from micro.planning.repeat import Repeat
from micro.worker import evidence as worker_evidence
from micro.worker.process import Workers
from reports import record
from reports.next_run import FIXED, LOCKSTEP, ONE_LOOK, PYTHON, THREADS

if TYPE_CHECKING:
    from kernels.devices.base import Limits
    from kernels.setting import Setting


WAITS = 0.01  # share of a case's time from which on voluntary waits get a warning
LOOP = 0.005  # share of the shorter of two calls: a longer loop, or interpreter call, gets a note
INTERPRETED = 5e-6  # seconds of one interpreter call, about
RECORDED = {x.name for x in fields(record.Result)} - {"settings", "workspace"}  # its workspace is what a kernel holds
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # shares of a call to which a note rounds the loop


@dataclass(frozen=True)
class Finished:
    """A finished contest, with all that its record needs: outcomes, measurement, ceilings, context."""

    contest: Contest
    outcomes: Sequence[Outcome]  # of the contest's cases, in order
    measurement: Measurement | None  # None if nothing was timed
    ceilings: Sequence[Case]  # their columns in the measurement follow those of the cases that ran
    remarks: tuple[str, ...]  # on the entire contest, beside those of its measurement
    goal: Goal
    until: str  # last stage to run
    setup: float  # seconds before it was timed
    limits: Mapping[str, Limits]
    repeat: Repeat
    evidence: Path | None = None  # folder for evidence of wrong answers

    def to_record(self) -> record.Contest:
        """Return the contest's record."""
        m = self.measurement
        return record.Contest(
            self.contest.name,
            self.contest.question,
            self.contest.differs,
            self.results(),
            tuple(self._comparison(a, b) for a, b in self.contest.comparisons),
            {"measuring": m.seconds if m else 0.0, "setup": self.setup, "witnessing": m.look.witnessing if m else 0.0},
            stopped=m.stopped if m else None,
            system=m.look.counters.record() | m.look.state if m else {},
            loop=m.opened.loop or None if m else None,
        )

    def results(self) -> tuple[record.Result, ...]:
        """Return a result for each case, then for each ceiling if the contest was timed."""
        cases = [self._result(i, outcome) for i, outcome in enumerate(self.outcomes)]
        if self.measurement is None:
            return tuple(cases)
        first = len(self._column)
        bounds = [self._bound(x, first + i) for i, x in enumerate(self.ceilings)]
        return (*cases, *bounds)

    def _bound(self, case: Case, at: int) -> record.Result:
        """Return a ceiling's result, with the rates to which shares of cases refer."""
        assert self.measurement is not None
        timed, cases = self._timed(self._blank(case), at, case, ()), self._measured
        seconds = float(median(case_ceilings.took(self.measurement, cases, at)))
        return replace(
            timed, flops_per_second=case.problem.flops / seconds, bytes_per_second=case.problem.bytes / seconds
        )

    @property
    def _measured(self) -> list[Case]:
        """Cases in the order of the measurement's columns."""
        return [*(self.contest.cases[i] for i in self._column), *self.ceilings]

    @cached_property
    def _column(self) -> dict[int, int]:
        """Column in the measurement of each case that passed its check, by the case's index."""
        alive = [i for i, outcome in enumerate(self.outcomes) if outcome.status == "ran"]
        return {case: column for column, case in enumerate(alive)}

    @cached_property
    def _shares(self) -> dict[int, case_ceilings.Share]:
        """Each measured case's share of its ceiling, by the case's index."""
        assert self.measurement is not None
        return {
            i: case_ceilings.share(self.measurement, self._measured, column, self.limits)
            for i, column in self._column.items()
        }

    def _blank(self, case: Case) -> record.Result:
        row: Any = find(case.problem.op, case.variant)
        return record.Result(
            name=case.name,
            contest=self.contest.name,
            role=case.role,
            op=case.problem.op,
            problem=asdict(case.problem),
            axes=case.problem.shown,
            digests=case.problem.digests() or None,
            descriptor=case.problem.descriptor,
            footprint=case.problem.footprint,
            ceiling=case_ceilings.title(case) if case.role == "ceiling" else None,
            variant=case.variant,
            status="planned",
            **_recorded(case.setting),
            precision=row.computes(case.problem),
            blas=row.blas(case.problem),
            repeat=self.repeat.line(case),
        )

    def _result(self, i: int, outcome: Outcome) -> record.Result:
        case = self.contest.cases[i]
        blank = replace(self._blank(case), status=outcome.status, reason=outcome.reason)
        if outcome.status == "wrong" and self.evidence is not None:
            left = worker_evidence.path(self.evidence, case)
            blank = replace(blank, evidence=str(left) if left.exists() else None)
        if outcome.prepared:
            p = outcome.prepared
            blank = replace(
                blank, setup_seconds=p.seconds, workspace=p.workspace, uses=p.uses, kernel=p.kernel, isa_observed=p.isa
            )
        if outcome.passed:
            blank = replace(blank, error=outcome.passed.error, error_bound=outcome.passed.bound)
        if self.measurement is None or i not in self._column:
            return blank
        share = self._shares[i]
        if share.refusal:
            return replace(blank, status="wrong", reason=share.refusal)
        timed = self._timed(blank, self._column[i], case, self._warnings)
        return replace(timed, percent_of_ceiling=share.percent, ceiling=share.name)

    def _timed(self, blank: record.Result, at: int, case: Case, warnings: tuple[str, ...]) -> record.Result:
        m = self.measurement
        assert m is not None
        times = m.times[:, at]
        seconds = record.Seconds.of(times[m.timed])
        lost = m.lost(at)
        status: record.Status = "ok"
        if lost > CONTENDED or "contended" in " ".join(warnings):
            status = "contended"
        row: Any = find(case.problem.op, case.variant)
        work = row.executed(case.problem)
        if lost > CONTENDED:
            warnings = (*warnings, f"{lost:.0%} of its rounds {_disturbance(m, at, case)}")
        waits = m.waits(at)
        if waits > WAITS:
            warnings = (*warnings, f"waited voluntarily for {waits:.0%} of its time (included)")
        warnings = (*warnings, *m.holds(at))
        return replace(
            blank,
            status=status,
            clock=m.clocks[at],
            seconds=seconds,
            flops_per_second=row.times * case.problem.flops / seconds.median,
            bytes_per_second=row.times * (work.bytes if row.link else case.problem.bytes) / seconds.median,
            work=asdict(work),
            samples=_floats(times),
            wall_samples=_floats(m.look.wall[:, at]) if m.clocks[at] == "cpu" else (),
            rounds=tuple(range(len(times))),
            placements=tuple(int(x) for x in m.look.places[:, at]),
            rejected=tuple(int(r) for r in m.rejected.nonzero()[0]),
            lost=lost,
            launches=(m.look.launches or m.opened.launches)[at],
            faults=m.look.faults,
            witnesses=m.look.witnesses[at] if m.look.witnesses else 0,
            canary=dict(m.canary),
            warnings=warnings,
            waits=waits if case.setting.threads == 1 and not kind_of(case.setting.device).own_clock else None,
        )

    @cached_property
    def _warnings(self) -> tuple[str, ...]:
        """Warnings about the entire contest."""
        threads = max(case.setting.threads for case in self.contest.cases)
        disturbances = disturbed(self.measurement, threads) if self.measurement else ()
        return (*self.remarks, *disturbances)

    def _comparison(self, a: int, b: int) -> record.Comparison:
        first, second = self.contest.cases[a], self.contest.cases[b]
        known = self.contest.name, self.contest.differs, first.name, second.name, self.goal.margin, self.goal.target
        blank = record.Comparison.unjudged(*known, work_ratio=_work_ratio(first, second))
        m = self.measurement
        refusal = self._incomparable(a, b)
        if refusal or m is None:
            return replace(blank, reason=refusal or f"nothing was timed: --until {self.until}")
        judged = m.judgments[self._column[a], self._column[b]]
        filled = replace(blank.judged(judged), path=self._path(m, a, b))
        reason = judged.reason or (m.stopped if judged.verdict == "unresolved" else None)
        if judged.shown is None:
            rejected = int(m.rejected.sum())
            more = f", {rejected} more were rejected" if rejected else ""
            return replace(filled, reason=f"{judged.reason}{more}; {m.stopped}")
        shortest = _shortest(m, self._column[a], self._column[b])
        notes = (*_interpreted(first, second, shortest), *_loop(m.opened.loop / shortest), *judged.notes)
        return replace(filled, reason=reason, notes=notes)

    def _path(self, measurement: Measurement, a: int, b: int) -> tuple[str, ...]:
        alive = [self.contest.cases[i] for i in self._column]
        return path(alive, measurement, self.goal, (self._column[a], self._column[b]))

    def _incomparable(self, a: int, b: int) -> str | None:
        """Return a message if one of two cases has no valid time; None if both have."""
        for i in (a, b):
            name, outcome = self.contest.cases[i].name, self.outcomes[i]
            if i not in self._column:
                return f"{name} {outcome.status}" + (f": {outcome.reason}" if outcome.reason else "")
        for i in (a, b) if self.measurement else ():
            if refusal := self._shares[i].refusal:
                return f"{self.contest.cases[i].name} wrong: {refusal}"
        return None


def path(cases: Sequence[Case], measurement: Measurement, goal: Goal, pair: tuple[int, int]) -> tuple[str, ...]:
    """Return the path of a comparison: the clocks of its two cases, then the other properties of its timing.

    The path is the key of the self-test's spread between runs. `pair`: columns of the measurement."""
    return tuple(dict.fromkeys(_words(cases, measurement, goal, pair)))


def _words(cases: Sequence[Case], m: Measurement, goal: Goal, pair: tuple[int, int]) -> Iterator[str]:
    yield from (m.clocks[i] for i in pair)
    if one_look(goal, m.opened):
        yield ONE_LOOK
    places = m.look.places[:, list(pair)]
    if len(places) > 1 and (places == places[0]).all():
        yield FIXED
    if any(find(cases[i].problem.op, cases[i].variant).python for i in pair):
        yield PYTHON
    if any(case.setting.threads > 1 for case in cases):
        yield THREADS
    if len({Workers.key(case) for case in cases}) > 1:
        yield LOCKSTEP


def _recorded(setting: Setting) -> dict[str, Any]:
    """Return the fields of a result that hold a setting; a knob without such a field goes to `settings`."""
    values = setting.values | {"isa": setting.isa if "isa" in setting.changed else None}
    recorded = {name: value for name, value in values.items() if name in RECORDED}
    others = {name: values[name] for name in setting.changed if name not in (*RECORDED, "workspace")}
    return recorded | {"workspace_limit": setting.workspace, "settings": others or None}


def _disturbance(m: Measurement, at: int, case: Case) -> str:
    """Describe what disturbed many of a case's rounds, and whether its time includes them."""
    none = ": no other rounds remain, so its time is from these" * bool(m.rejected.all())
    if m.clocks[at] == kind_of(case.setting.device).clock:
        return f"were rejected{none}"
    if m.clocks[at] == "cpu":
        return "lost more than 1 % of their time to other processes; CPU time excludes this, so they count"
    others = "lost more than 1 % of their time to other processes"
    return f"{others} and were rejected{none}" if m.rejected.any() else others


def disturbed(m: Measurement, threads: int) -> Iterator[str]:
    """Yield disturbances of the entire contest: throttling, heat, moved cores, foreign load."""
    counters, slowed = m.look.counters, m.look.slowed
    if counters.throttled:
        yield f"contended: throttled in {counters.throttled} periods of the cgroup's quota"
    if hot := slowed.get("thermal", 0.0):
        yield f"contended: clock throttled by heat for {hot:.2g} s"
    if capped := slowed.get("power", 0.0):
        yield f"clock throttled by the power limit for {capped:.2g} s"
    if not m.opened.queues and threads == 1 and "wall" in m.clocks:
        yield "this system does not report queueing times: wall times include time lost to other processes and waits"
    if counters.moved:
        yield "contended: the CPU affinity changed during the measurement"
    if threads > 1 and counters.foreign > FOREIGN:
        yield f"contended: other processes kept {counters.foreign:.2f} cores busy"


def _shortest(m: Measurement, *columns: int) -> float:
    """Return the least of the median seconds per use of these columns."""
    import numpy as np

    return float(np.median(m.times[m.timed][:, columns], axis=0).min())


def _loop(share: float) -> Iterator[str]:
    """Yield a note if calls are so short that their ratio is of throughput, and contains the loop."""
    if share >= LOOP:
        most = next((step for step in STEPS if share <= step), 1.0)
        yield (
            f"back-to-back calls overlap: throughput, not latency; up to {100 * most:g} % of the shorter time is "
            "loop overhead, which draws the ratio towards 1"
        )


def _work_ratio(first: Case, second: Case) -> float:
    """Return the executed work of `second` over that of `first`; 1 if `first` does no work."""
    least = _executed(first)
    return _executed(second) / least if least else 1.0


def _executed(case: Case) -> float:
    """Return executed FLOP, or bytes for a case without FLOP."""
    work = find(case.problem.op, case.variant).executed(case.problem)
    return work.flops or work.bytes


def _interpreted(first: Case, second: Case, shortest: float) -> Iterator[str]:
    """Yield a note if calls are short, and only one of the two cases is called by the interpreter."""
    python = [find(case.problem.op, case.variant).python for case in (first, second)]
    if python[0] != python[1] and INTERPRETED / shortest >= LOOP:
        yield "one case includes a Python call"


def _floats(values: Any) -> tuple[float, ...]:
    """Round to picoseconds, finer than the precision of a sample."""
    return tuple(round(float(value), 12) for value in values)
