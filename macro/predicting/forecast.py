"""Predictions of changes: each changed step is observed, and predicted from isolated kernels."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from kernels import heap
from kernels.devices.cpu import cores
from kernels.errors import LaunchError, SuiteError, Unavailable
from kernels.users import raised
from macro.changes import Named, _alone
from macro.changes._parts import OF_MALLOC, around, part
from macro.changes.base import BaselineProfile, Effect, Forecast, Part, PredictionInput, ProcessSnapshot, Ratio, Step
from macro.changes.heaps import beside
from macro.predicting import judged, network_step, script_step
from macro.predicting.judged import NOT_TIMED, PredictedChange, Say, at_once, joined, together
from macro.processes.ahead import on
from macro.watching import ends, perf
from macro.watching.ends import Ended
from reports import units
from reports.record import Prediction

if TYPE_CHECKING:
    from reports.store import RunFile


UNTIMED = Forecast(why=NOT_TIMED)
TRIALS = "trials in running processes"  # a part of a prediction
ASKS = "NUMPY_MADVISE_HUGEPAGE"
LEAST = 0.05  # least share of a step that a change is assumed to affect
MOSTLY = 0.5  # share of a process's memory in huge pages from which on the kernels' arrays request them too


class Subject(Protocol):
    """Interface of network_step and script_step: the functions that observe and time a step."""

    def before(self, step: Step, seconds: float, say: Say, arrays: Path, trials: Sequence[str]) -> BaselineProfile: ...
    def fitted(self, step: Step, changes: int, before: BaselineProfile) -> Step: ...
    def after(
        self, step: Step, say: Say, stack: ExitStack, looks: Sequence[str], arrays: Path | None
    ) -> ProcessSnapshot: ...
    def free_cores(self, step: Step, changed: Sequence[Step], identity: Mapping[str, Any]) -> list[list[int]]: ...
    def make(
        self,
        step: Step,
        foreseen: Sequence[PredictedChange],
        file: RunFile,
        say: Say,
        folder: Path,
        identity: Mapping[str, Any],
        hopeless: float | None,
    ) -> list[PredictedChange]: ...


@dataclass
class Predictor:
    """Predictor of changes to an unchanged step; it reuses predictions that the run file holds."""

    step: Step
    watching: float  # seconds of watching the unchanged step, once, when a prediction first needs it
    alone: float  # seconds of measuring isolated kernels, for all changes together
    file: RunFile
    say: Say
    arrays: Path  # folder of the steps' inputs
    trials: Sequence[str] = ()  # names of trials that a script's changes are predicted from
    held: dict[str, Prediction] = field(init=False)
    seen: dict[str, ProcessSnapshot | SuiteError] = field(init=False, default_factory=dict)  # by a change's words
    shares: dict[str, float] = field(init=False, default_factory=dict)  # seconds of `alone`, by a change's words
    per_round: int = field(init=False, default=1)  # expected number of changes in a round of turns

    def __post_init__(self) -> None:
        self.held = {x.change: x for x in self.file.run.predictions}
        self.subject: Subject = network_step if self.step.script is None else script_step

    @cached_property
    def before(self) -> BaselineProfile:
        if why := perf.missing():
            raise Unavailable(f"a prediction requires perf's samples: {why}")
        return self.subject.before(self.step, self.watching, self.say, self.arrays, self.trials)

    def turns(
        self, step: Step, foreseen: Sequence[PredictedChange], hopeless: float | None = None
    ) -> list[PredictedChange]:
        """Time changes in turns with the unchanged step; record and return them with their measurements."""
        identity = self.before.identity if "before" in self.__dict__ else {}
        return self.subject.make(step, foreseen, self.file, self.say, self.arrays, identity, hopeless)

    @property
    def proving(self) -> float:
        """Seconds of proving the unchanged step's equal work; 0 if it was not watched here."""
        return self.before.side.proving if "before" in self.__dict__ else 0.0

    def look(self, asked: Sequence[Named]) -> None:
        """Observe, without timing, each changed step that has no prediction yet, in parallel if cores allow."""
        new, self.per_round = [named for named in asked if named.words not in self.held], len(asked)
        if not new:
            return
        identity = self.before.identity  # raises first if the unchanged step cannot be watched
        self.step = self.subject.fitted(self.step, self.per_round, self.before)
        began = time.monotonic()
        running, free = list[ExitStack](), SimpleQueue[list[int]]()
        for place in self.subject.free_cores(self.step, [named.apply(self.step) for named in new], identity):
            free.put(place)
        with ThreadPoolExecutor(free.qsize()) as pool:
            try:
                results = pool.map(partial(self._after, running=running, free=free), new)
                self.seen = dict(zip((named.words for named in new), results, strict=True))
            except BaseException:  # such as Ctrl-C: ends the processes, so that the threads waiting for them end
                for stack in running:
                    stack.close()
                raise
        took, steps = time.monotonic() - began, units.counted(len(new), "changed step")
        self.say(f"{steps} observed in {took:.0f} s; the rest of --budget times kernels by themselves, then steps")

    def worth(self, asked: Sequence[Named], least: float) -> list[Named]:
        """Return the changes worth observing; record the others, which affect nothing or less than `least`."""
        return [named for named in asked if named.words in self.held or not self._needless(named, least)]

    def _needless(self, named: Named, least: float) -> bool:
        changed, change = named.apply(self.step), named.change
        share, why = self.before.kinds(*change.saves) / self.before.seconds, ""
        if change.saves and not change.memory and share < least:
            why = f"at most {100 * share:.1f} % of the step is {', '.join(change.saves)}"
        if self.step.script and changed.setting.threads == self.before.threads != self.step.setting.threads:
            why = f"the script already has {units.counted(self.before.threads, 'thread')}"
        if why:
            self._kept([named], changed, change.costs, Effect(False, ""), UNTIMED, f"{NOT_TIMED}: {why}")
        return bool(why)

    def _after(
        self, named: Named, running: list[ExitStack], free: SimpleQueue[list[int]]
    ) -> ProcessSnapshot | SuiteError:
        changed = named.apply(self.step)
        same = (changed.plan.network, changed.plan.batch) == (self.step.plan.network, self.step.plan.batch)
        arrays = self.arrays if same else None
        with ExitStack() as stack:
            running.append(stack)
            stack.enter_context(_apart(free, changed.setting.threads or cores()))
            try:
                return self.subject.after(
                    changed, lambda text: self.say(f"{named.words}: {text}"), stack, named.change.looks, arrays
                )
            except Ended as end:
                return LaunchError(f"{self.step.plan.network.name}: {ends.late(end)}")
            except SuiteError as error:
                return error

    def each(self, asked: Sequence[Named]) -> list[PredictedChange]:
        """Predict observed changes; the time for isolated kernels is shared by what each change affects."""
        there = [named for named in asked if isinstance(self.seen.get(named.words), ProcessSnapshot)]
        new = [named for named in there if named.change.alone and self._needs_kernels(named)]
        parts = {named.words: self._part(named) for named in new}
        self.shares = {words: self.alone * part / sum(parts.values()) for words, part in parts.items()}
        with _alone.workers():
            return [self.single(named) for named in asked]

    def _needs_kernels(self, named: Named) -> bool:
        """Return whether a change's trials, if it has any, do not predict it."""
        tried = self.before.tried.get(named.trial)
        return tried is None or (isinstance(tried, str) and not named.change.code)

    def _of_trials(self, ratio: Ratio) -> Forecast:
        """Return the forecast from a change's trials; processes differ by more than what they tried."""
        seconds = self.before.seconds
        apart = self.before.between * seconds / math.sqrt(self.step.plan.generations)
        return Forecast((part(TRIALS, seconds, ratio), around("between processes", 0.0, apart)))

    def _part(self, named: Named) -> float:
        """Return the share of a step that a change may affect: that of the kinds it names, or else 1."""
        kinds = named.change.measures or named.change.saves
        return max(LEAST, self.before.kinds(*kinds) / self.before.seconds) if kinds else 1.0

    def single(self, named: Named) -> PredictedChange:
        """Predict an observed change; without evidence of it in the process it is recorded as not timed."""
        changed = named.apply(self.step)
        if prediction := self.held.get(named.words):
            return PredictedChange([named], changed, prediction)
        effect, forecast, why = self._assess(named, changed, self.seen[named.words])
        return self._kept([named], changed, named.change.costs, effect, forecast, why)

    def _assess(self, named: Named, changed: Step, after: ProcessSnapshot | SuiteError) -> tuple[Effect, Forecast, str]:
        """Return a change's effect, its forecast, and the reason why it is not timed, or ""."""
        if isinstance(after, SuiteError):
            return Effect(False, ""), UNTIMED, f"{NOT_TIMED}: {after}"
        try:
            effect = named.change.took(self.before, after)
            if not isinstance(effect, Effect):
                raise TypeError("took() returns no Effect")
        except Exception as error:
            return Effect(False, ""), UNTIMED, f"{NOT_TIMED}: took() raises {raised(error)}"
        if not effect.there:
            return effect, UNTIMED, f"{NOT_TIMED}: the change has no effect"
        share = self.shares.get(named.words, 0.0)
        self.say(
            f"{named.words}: {effect.evidence}" + f"; kernels by themselves, {share:.0f} s and checks" * bool(share)
        )
        return effect, self._brings(named, PredictionInput(self.before, after, self.step, changed, share)), ""

    def _brings(self, named: Named, asked: PredictionInput) -> Forecast:
        """Return a change's forecast; for changes of memory, add significant changes of page faults."""
        try:
            tried = asked.before.tried.get(named.trial)
            if isinstance(tried, Ratio):
                return self._of_trials(tried)
            if tried is not None and named.change.code:
                return Forecast(why=tried)
            with memory_of(self.step, asked.before):
                forecast = named.change.brings(asked)
            if not (isinstance(forecast, Forecast) and all(isinstance(part, Part) for part in forecast.parts)):
                raise TypeError("brings() returns no Forecast of Parts")
            if forecast.why is None and named.change.memory:
                forecast = Forecast((*forecast.parts, *beside(asked.before, asked.after, self.step.script is not None)))
            if not all(map(math.isfinite, (x for part in forecast.parts for x in part[1:]))):
                raise TypeError("a part is not finite (page faults are NaN unless FAULTS is in looks)")
            return forecast
        except SuiteError as error:
            return Forecast(why=str(error))
        except Exception as error:
            return Forecast(why=f"brings() raises {raised(error)}")

    def both(self, single: Sequence[PredictedChange]) -> PredictedChange:
        """Predict a combination of changes from their single predictions."""
        changes = [change for x in single for change in x.changes]
        changed = together(self.step, changes)
        if prediction := self.held.get(joined(changes)):
            return PredictedChange(changes, changed, prediction)
        unknown = next((x.words for x in single if x.prediction.predicted is None), None)
        parts = [part for x in single for part in _parts(x, self.before.seconds, self.step.plan.generations)]
        forecast = Forecast(why=f"no prediction of {unknown}") if unknown else Forecast(tuple(at_once(parts)))
        effect = Effect(True, "; ".join(x.prediction.effect for x in single))
        each = dict.fromkeys(cost for x in single for cost in x.prediction.costs.split("; ") if cost != "nothing")
        costs = "; ".join(each) or "nothing"
        return self._kept(changes, changed, costs, effect, forecast, "")

    def _kept(
        self, changes: Sequence[Named], changed: Step, costs: str, effect: Effect, forecast: Forecast, why: str
    ) -> PredictedChange:
        seconds, threads = self.before.seconds, self.before.identity.get("threads")
        threads = threads if isinstance(threads, int) else 1
        noise = judged.of_rounds(self.step.plan, seconds, self.before.spread, self.per_round)
        prediction = judged.prediction(self.step, joined(changes), costs, seconds, effect, forecast, threads, noise)
        prediction = replace(prediction, reason=why) if why else prediction
        self.file.append(prediction)
        seen = self.seen.get(joined(changes))
        return PredictedChange(
            changes, changed, prediction, seen.identity if isinstance(seen, ProcessSnapshot) else {}, forecast
        )


@contextmanager
def _apart(free: SimpleQueue[list[int]], threads: int) -> Iterator[None]:
    """Run the block on a free set of cores, or on all cores if `threads` exceeds the set."""
    place = free.get()
    try:
        with on(place if threads <= len(place) else sorted(os.sched_getaffinity(0))):
            yield
    finally:
        free.put(place)


@contextmanager
def memory_of(step: Step, before: BaselineProfile) -> Iterator[None]:
    """Set the environment so that isolated kernels have huge pages and malloc settings like the step.

    Otherwise a change would save another share of a kernel. NumPy, which allocates the kernels' arrays, requests huge
    pages; not every framework does. Workers that start inside the block keep this environment."""
    given = step.setting.knobs.get("variables", {})
    of_policy = heap.POLICIES[step.setting.heap]  # the kernels get these variables by their heap setting
    wanted = {name: str(value) for name, value in given.items() if name.startswith(OF_MALLOC) and name not in of_policy}
    if before.huge is not None and before.huge < MOSTLY and ASKS not in os.environ:
        wanted[ASKS] = "0"
    had = {name: os.environ[name] for name in wanted if name in os.environ}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]
        os.environ.update(had)


def _parts(candidate: PredictedChange, step: float, processes: int) -> Sequence[Part]:
    """Return a prediction's parts; a prediction from the run file becomes a single part, scaled to `step`."""
    if candidate.forecast is not None:
        return candidate.forecast.parts
    prediction = judged.as_long(candidate.prediction, step)
    if prediction.predicted is None:
        return ()
    return (
        around("the step", prediction.predicted.seconds, judged.of_kernels(prediction, processes, model=False), step),
    )
