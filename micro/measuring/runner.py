"""A contest from its plan to its record: stage 1 checks every case, stage 2 measures the survivors."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.catalog import find
from kernels.devices import runs
from kernels.errors import BuildError, KernelError, Unavailable, UsageError, WrongResult
from micro.measuring import ceilings as case_ceilings
from micro.measuring.rounds import CONTENDED, FOREIGN, Measurement, measure
from micro.measuring.workers import Crew
from micro.planning.contest import Budget, Case, Contest
from micro.planning.options import option_of
from micro.planning.protocol import PREPARE
from micro.planning.repeat import command
from micro.worker import evidence as worker_evidence
from micro.worker.canaries import History
from micro.worker.check import Passed
from micro.worker.client import Client, Died, ask
from micro.worker.messages import Check, Prepare, PreparedCase
from micro.worker.process import Workers
from reports import record, stats, units

if TYPE_CHECKING:
    from kernels.devices.base import Limits
    from kernels.problem import Problem

MEMORY_MARGIN = 0.04
FIRST = 60.0  # seconds for the first answer of a provider to an operation in a GPU's worker: it loads and compiles
PATIENCE, FACTOR, SLOW = 10.0, 20.0, 5e9  # seconds; × work at this many FLOP/s; twice, for two probes
SLOW_BYTES = 0.5e9  # … and operands at this many bytes/s: references are in float64


def refuse_size(contests: Sequence[Contest], limits: Mapping[str, Limits]) -> None:
    """Raise UsageError, before anything is allocated, where a case cannot fit on its device."""
    for case in (case for contest in contests for case in contest.cases if case.setting.device in limits):
        need = 3 * case.problem.footprint  # the check's operands, the arenas, float64 references
        free = limits[case.setting.device].memory
        if need > free:
            raise UsageError(
                f"{case.problem.name} needs {units.binary(need)} of memory, "
                f"{units.binary(free)} are free{_smaller(case.problem)}"
            )


def _smaller(problem: Problem) -> str:
    """Which axes to lower; nothing where none of them sets the size."""
    axes = [option_of(name) for name in problem.size_axes]
    return f": take {'a ' * (len(axes) == 1)}smaller {', '.join(axes)}" if axes else ""


@dataclass(frozen=True)
class Outcome:
    """Stage 1 of one case."""

    status: record.Status
    reason: str | None = None
    prepared: PreparedCase | None = None
    passed: Passed | None = None


@dataclass(frozen=True)
class Runner:
    """What all contests of a command share. `limits` are those of each device by its name."""

    workers: Workers
    limits: Mapping[str, Limits]
    history: History
    until: str = "time"
    progress: Callable[[str], None] = lambda text: None
    module: str = "gemm"
    swept: frozenset[tuple[str, str]] = frozenset()
    seed: int = 0
    evidence: Path | None = None  # folder for what wrong kernels leave
    keep_wrong: bool = False
    checked: dict[Case, Outcome] = field(default_factory=dict)
    known: set[tuple[Client, str, str]] = field(default_factory=set)  # workers, operations, providers that answered

    def run(self, contest: Contest, seconds: float, budget: Budget) -> record.Contest:
        """The contest's record: a result for every case, a comparison for every pair."""
        return self.take(contest, seconds, budget)[0]

    def take(
        self, contest: Contest, seconds: float, budget: Budget, at_least: int = 0
    ) -> tuple[record.Contest, Measurement | None]:
        """As `run`, with the measurement behind it; `at_least` rounds go on after the answer is known."""
        began = time.monotonic()
        seed = zlib.crc32(contest.name.encode()) ^ self.seed
        outcomes = [
            self._stage1(case, zlib.crc32(case.problem.drawn.name.encode()) ^ self.seed) for case in contest.cases
        ]
        setup = time.monotonic() - began
        alive = [i for i, outcome in enumerate(outcomes) if outcome.status == "ran"]
        margin = self._margin(contest, budget)
        measurement: Measurement | None = None
        while self.until == "time" and alive and measurement is None:
            survivors = [contest.cases[i] for i in alive]
            crew = Crew(self.workers, (*survivors, *self.ceilings(survivors)), seed)
            pairs = _renumbered(contest, alive)
            try:
                measurement = measure(crew, pairs, seconds, budget.target, margin, self.progress, at_least=at_least)
            except (KernelError, Unavailable, MemoryError) as error:
                if crew.culprit >= len(survivors):  # it bounds nothing from now on
                    self.checked[crew.cases[crew.culprit]] = Outcome("failed", f"while it was timed: {error}")
                else:
                    alive = self._blame(outcomes, alive, crew.culprit, error)
            with suppress(KernelError, Unavailable):  # what dies now has been measured
                crew.close()
        told = _Told(self, contest, outcomes, alive, measurement, margin, budget.target)
        spent = {"measuring": measurement.seconds if measurement else 0.0, "setup": setup}
        look = measurement.look if measurement else None
        system = asdict(look.counters) | look.state if look else {}
        stopped = measurement.stopped if measurement else None
        done = record.Contest(
            contest.name,
            contest.question,
            contest.differs,
            told.results(),
            told.comparisons(),
            spent,
            stopped=stopped,
            system=system,
        )
        return done, measurement

    def ceilings(self, cases: Sequence[Case]) -> list[Case]:
        """What bounds these cases; a doubtful one only where it is here and its answer is right, and none that failed
        while it was timed."""
        found = case_ceilings.cases(cases, self.limits)
        known = [not case_ceilings.doubtful(x) and x not in self.checked for x in found]
        return [x for x, fine in zip(found, known, strict=True) if fine or self._stage1(x, self.seed).status == "ran"]

    def _stage1(self, case: Case, seed: int) -> Outcome:
        """Prepare, launch, check, once in a command; whatever a kernel does costs its case alone."""
        if case not in self.checked:
            self.checked[case] = self._check(case, seed)
        return self.checked[case]

    def _check(self, case: Case, seed: int) -> Outcome:
        if case.skip:
            return Outcome("skipped", case.skip)
        if self.until == "plan":
            return Outcome("planned")
        key = self.workers.key(case)
        prepared = None
        try:
            self.progress(f"checking {case.name}")
            prepared = ask(self.workers.get(key), Prepare(case), PREPARE)
            if self.until == "build":
                return Outcome("built", None, prepared)
            check = Check(case, seed, self.evidence, self.keep_wrong)
            passed = ask(self.workers.get(key), check, self._patience(case, prepared))
            self.known.add(self._asked(case))
            return Outcome("ran", None, prepared, passed)
        except WrongResult as error:
            return Outcome("wrong", str(error), prepared)
        except Unavailable as error:
            return Outcome("skipped", str(error))
        except BuildError as error:
            return Outcome("failed", str(error), prepared)
        except (KernelError, MemoryError) as error:
            # An error of CUDA's may stay with its context: no later case must inherit it.
            if isinstance(error, Died) or runs(case.setting.device) == "cuda":
                self.workers.drop(key)
            return Outcome("failed", str(error) or "out of memory", prepared)

    def _patience(self, case: Case, prepared: PreparedCase) -> float:
        """Seconds for an answer, by its work; the first one of a kind on a GPU has FIRST at least."""
        work = find(case.problem.op, case.variant).executed(case.problem)
        once = work.flops * prepared.uses / SLOW + case.problem.footprint / SLOW_BYTES
        first = runs(case.setting.device) == "cuda" and self._asked(case) not in self.known
        return max(FIRST if first else PATIENCE, FACTOR * 2 * once)

    def _asked(self, case: Case) -> tuple[Client, str, str]:
        """Whom a case asks for what."""
        worker = self.workers.get(self.workers.key(case))
        return worker, case.problem.op, find(case.problem.op, case.variant).provider

    def _blame(self, outcomes: list[Outcome], alive: list[int], culprit: int, error: Exception) -> list[int]:
        """A case that died while it was timed leaves the contest; where none can be named, all fail."""
        blamed = [alive[culprit]] if 0 <= culprit < len(alive) else list(alive)
        for i in blamed:
            outcomes[i] = replace(outcomes[i], status="failed", reason=f"while it was timed: {error}")
        return [i for i in alive if i not in blamed]

    def _margin(self, contest: Contest, budget: Budget) -> float:
        given = budget.margin if budget.margin is not None else contest.margin
        if given is not None:
            return given
        known = [(c.problem, self.limits.get(c.setting.device)) for c in contest.cases]
        bound = any(x is not None and case_ceilings.memory_bound(problem, x.usable_cache) for problem, x in known)
        return max(MEMORY_MARGIN, budget.target) if bound else budget.target


def _renumbered(contest: Contest, alive: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs whose both cases survived, by their places among the survivors."""
    place = {old: new for new, old in enumerate(alive)}
    return [(place[a], place[b]) for a, b in contest.comparisons if a in place and b in place]


@dataclass(frozen=True)
class _Told:
    """A contest's results and comparisons, from what its two stages left."""

    runner: Runner
    contest: Contest
    outcomes: Sequence[Outcome]
    alive: Sequence[int]
    measurement: Measurement | None
    margin: float
    target: float

    def results(self) -> tuple[record.Result, ...]:
        warnings = self._warnings()
        found = [self._result(i, outcome, warnings) for i, outcome in enumerate(self.outcomes)]
        return (*found, *self._ceilings())

    def _blank(self, case: Case) -> record.Result:
        row: Any = find(case.problem.op, case.variant)
        return record.Result(
            name=case.name,
            contest=self.contest.name,
            role=case.role,
            op=case.problem.op,
            problem=asdict(case.problem),
            variant=case.variant,
            device=case.setting.device,
            threads=case.setting.threads,
            status="planned",
            cold=case.setting.cold,
            data=case.setting.data,
            isa=None if case.setting.isa == "default" else case.setting.isa,
            heap=case.setting.heap,
            precision=row.computes(case.problem),
            blas=row.blas(case.problem),
            repeat=command(self.runner.module, case, self.runner.swept),
        )

    def _result(self, i: int, outcome: Outcome, warnings: tuple[str, ...]) -> record.Result:
        case = self.contest.cases[i]
        blank = replace(self._blank(case), status=outcome.status, reason=outcome.reason)
        if outcome.status == "wrong" and self.runner.evidence is not None:
            left = worker_evidence.path(self.runner.evidence, case)
            blank = replace(blank, evidence=str(left) if left.exists() else None)
        if outcome.prepared:
            p = outcome.prepared
            blank = replace(
                blank, setup_seconds=p.seconds, workspace=p.workspace, uses=p.uses, kernel=p.kernel, isa_observed=p.isa
            )
        if outcome.passed:
            blank = replace(blank, error=outcome.passed.error, error_bound=outcome.passed.bound)
        if self.measurement is None or i not in self.alive:
            return blank
        told = self._shares[i]
        if told.refusal:
            return replace(blank, status="wrong", reason=told.refusal)
        timed = self._timed(blank, self._place[i], case, warnings)
        return replace(timed, percent_of_ceiling=told.percent, ceiling=told.name)

    @cached_property
    def _all(self) -> list[Case]:
        cases = [self.contest.cases[i] for i in self.alive]
        return [*cases, *self.runner.ceilings(cases)]

    @cached_property
    def _place(self) -> dict[int, int]:
        """A case's column in the measurement."""
        return {old: new for new, old in enumerate(self.alive)}

    @cached_property
    def _shares(self) -> dict[int, case_ceilings.Share]:
        """Of its ceiling, by case."""
        assert self.measurement is not None
        return {
            i: case_ceilings.share(self.measurement, self._all, at, self.runner.limits) for i, at in self._place.items()
        }

    def _timed(self, blank: record.Result, at: int, case: Case, warnings: tuple[str, ...]) -> record.Result:
        m = self.measurement
        assert m is not None
        times = m.times[:, at]
        median, low, high = stats.order_interval(times[m.accepted])
        lost = m.lost(at)
        status: record.Status = "ok"
        if lost > CONTENDED or "contended" in " ".join(warnings):
            status = "contended"
        work = find(case.problem.op, case.variant).executed(case.problem)
        if lost > CONTENDED:
            on_gpu = m.clocks[at] == "event"
            why = "were rejected" if on_gpu else "lost more than 1 % of their time to others"
            warnings = (*warnings, f"{lost:.0%} of its rounds {why}")
        warnings = (*warnings, *m.holds(at))
        return replace(
            blank,
            status=status,
            clock=m.clocks[at],
            seconds=record.Seconds(median, _known(low), _known(high), stats.SHOWN),
            flops_per_second=case.problem.flops / median,
            bytes_per_second=case.problem.bytes / median,
            work=asdict(work),
            samples=_floats(times),
            wall_samples=_floats(m.look.wall[:, at]) if m.clocks[at] == "cpu" else (),
            rounds=tuple(range(len(times))),
            placements=tuple(int(x) for x in m.look.places[:, at]),
            rejected=tuple(int(r) for r in m.rejected.nonzero()[0]),
            launches=(m.look.launches or m.opened.launches)[at],
            faults=m.look.faults,
            canary=dict(m.canary),
            warnings=warnings,
        )

    def _ceilings(self) -> list[record.Result]:
        if self.measurement is None:
            return []
        offset = len(self.alive)
        return [self._timed(self._blank(case), offset + i, case, ()) for i, case in enumerate(self._all[offset:])]

    def _warnings(self) -> tuple[str, ...]:
        """Of the whole contest: a slow host, foreign load on several threads, throttled periods, ceilings that are
        none."""
        m = self.measurement
        if m is None:
            return ()
        import numpy as np

        found = []
        if m.canary and not self.contest.cases[self.alive[0]].setting.device.startswith("fake"):
            slow = self.runner.history.slow({name: float(np.median(x)) for name, x in m.canary.items()})
            if slow:
                found.append(f"contended: {slow}")
        counters = m.look.counters
        if counters.throttled:
            found.append(f"contended: throttled in {counters.throttled} periods of the cgroup's quota")
        if hot := m.look.slowed.get("thermal", 0.0):
            found.append(f"contended: its clock was held down for heat, for {hot:.2g} s")
        if capped := m.look.slowed.get("power", 0.0):
            found.append(f"its clock was held down by its power limit, for {capped:.2g} s")
        if counters.moved:
            found.append("contended: the cores it may run on were changed while it was measured")
        for case in case_ceilings.cases([self.contest.cases[i] for i in self.alive], self.runner.limits):
            outcome = self.runner.checked.get(case)
            if outcome and outcome.status != "ran":
                found.append(f"no ceiling by {case.problem.name}: {outcome.status}: {outcome.reason}")
        several = any(case.setting.threads > 1 for case in self.contest.cases)
        if several and counters.foreign > FOREIGN:
            found.append(f"contended: others kept {counters.foreign:.2f} cores busy")
        return tuple(found)

    def comparisons(self) -> tuple[record.Comparison, ...]:
        return tuple(self._comparison(a, b) for a, b in self.contest.comparisons)

    def _comparison(self, a: int, b: int) -> record.Comparison:
        first, second = self.contest.cases[a], self.contest.cases[b]
        blank = record.Comparison(
            self.contest.name,
            self.contest.differs,
            first.name,
            second.name,
            None,
            None,
            None,
            stats.SHOWN,
            "not comparable",
            None,
            self.margin,
            self.target,
            self._work_ratio(first, second),
            notes=self._notes(first, second),
        )
        for i in (a, b):
            if i not in self.alive:
                outcome = self.outcomes[i]
                why = f"{self.contest.cases[i].name} {outcome.status}"
                return replace(blank, reason=f"{why}: {outcome.reason}" if outcome.reason else why)
        if self.measurement is None:
            return replace(blank, reason=f"nothing was timed: --until {self.runner.until}")
        m = self.measurement
        for i in (a, b):
            if refusal := self._shares[i].refusal:
                return replace(blank, reason=f"{self.contest.cases[i].name} wrong: {refusal}")
        judged = m.judgments[self._place[a], self._place[b]]
        reason = judged.reason or (m.stopped if judged.verdict == "unresolved" else None)
        if judged.shown is None:
            return replace(blank, verdict="unresolved", reason=f"{judged.reason}; {m.stopped}")
        shown = judged.shown
        notes = blank.notes
        if shown.lag1 > stats.WANDERS:
            notes = (*notes, f"the ratio itself wanders: lag-1 autocorrelation {shown.lag1:.2f}")
        return replace(
            blank,
            ratio=shown.center,
            low=shown.low,
            high=shown.high,
            verdict=judged.verdict,
            reason=reason,
            notes=notes,
        )

    def _work_ratio(self, first: Case, second: Case) -> float:
        """1 beside a case that does no work: there is no ratio to show."""
        least = self._executed(first)
        return self._executed(second) / least if least else 1.0

    def _executed(self, case: Case) -> float:
        """FLOPs, or bytes where it has none: for the ratio of the work."""
        work = find(case.problem.op, case.variant).executed(case.problem)
        return work.flops or work.bytes

    def _notes(self, first: Case, second: Case) -> tuple[str, ...]:
        python = [find(case.problem.op, case.variant).python for case in (first, second)]
        return ("includes the Python call of one side",) if python[0] != python[1] else ()


def _floats(values: Any) -> tuple[float, ...]:
    """Rounded to a picosecond: a sample knows no more."""
    return tuple(round(float(value), 12) for value in values)


def _known(value: float) -> float | None:
    return value if value == value else None
