"""Changes with their predictions, several at once, and the rule that compares a prediction with the measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from macro.changes import Named
from macro.changes._parts import PAGE_FAULTS, around
from macro.changes.base import CONFIDENCE, Effect, Forecast, Part, Step
from macro.timing.entry import Entry, Plan
from macro.timing.groups import BLOCK
from macro.timing.results import by_round, clock, times
from reports import stats
from reports.prediction import LEFT_OUT, NEAR, UNDECIDED
from reports.record import Expected, Prediction

if TYPE_CHECKING:
    from reports.store import RunFile

Say = Callable[[str], None]  # where progress is reported
MODEL = 0.12  # of a prediction from kernels alone: its error; from 79 pairs older than docs/whatif.md's
BETWEEN = 0.03  # of a step: the difference of two of its processes; from the same pairs
DIFFERENCE = 1.5  # variances of a round: of a step less the mean of two that are in memory with it
UNCHANGED = 2  # steps in all turns: unchanged, and its control run
SOON = 3  # rounds from which on a change that does not help is left out
CHOOSING = "timed in few rounds, to choose what is timed again"
FEW = "too few rounds: a longer --budget"
NOT_TIMED = "not timed"


@dataclass(frozen=True)
class PredictedChange:
    """A change, or several at once, with the prediction made before it is timed."""

    changes: Sequence[Named]
    changed: Step  # with the changes
    prediction: Prediction
    identity: Mapping[str, Any] = field(default_factory=dict)  # reported by its process, if it ran
    forecast: Forecast | None = None  # parts of the prediction, where this command made it

    @property
    def words(self) -> str:
        return joined(self.changes)

    @property
    def names(self) -> list[str]:
        """The words of each change."""
        return [change.words for change in self.changes]

    @property
    def there(self) -> bool:
        """Return whether the change is in the process, so that it is worth timing."""
        return NOT_TIMED not in (self.prediction.reason or "")


def expected(forecast: Forecast, step: float, processes: int = 1, noise: float = 0.0) -> Expected | None:
    """Sum the parts of a forecast, for a step of so many seconds.

    Errors of parts are of different kernels; that of the model, by which a kernel does in a step what it does alone, is
    common to all, and processes of one step differ: `processes` of each will be measured. `noise`: the error of the
    rounds to come, at CONFIDENCE."""
    if forecast.why is not None:
        return None
    center = sum(part.seconds for part in forecast.parts)
    model = MODEL * sum(abs(part.seconds) for part in forecast.parts)
    beside = model, _of_turns(step, processes, noise)
    below = math.hypot(*(part.seconds - part.low for part in forecast.parts), *beside)
    above = math.hypot(*(part.high - part.seconds for part in forecast.parts), *beside)
    return Expected(center, center - below, center + above, CONFIDENCE)


def _of_turns(step: float, processes: int, noise: float) -> float:
    """Return the error that is of no kernel: what processes of a step differ by, and that of rounds."""
    return math.hypot(BETWEEN * step / math.sqrt(processes), noise)


def prediction(
    step: Step,
    change: str,
    costs: str,
    seconds: float,
    effect: Effect,
    forecast: Forecast,
    threads: int = 1,
    noise: float = 0.0,
) -> Prediction:
    """Return the record that is written before the changed step is timed.

    `seconds`: of the unchanged step, which has `threads` where its setting has none; `noise`: from `of_rounds`."""
    plan = step.plan
    words = (plan.network.name, step.framework.name, change, plan.batch, plan.phase, step.setting.threads or threads)
    parts: dict[str, float] = {}
    for part in forecast.parts:
        parts[part.what] = parts.get(part.what, 0.0) + part.seconds
    return Prediction(
        "/".join(map(str, words)),
        *words,
        seconds,
        expected(forecast, seconds, plan.generations, noise),
        parts,
        effect.evidence,
        costs,
        reason=None if forecast.why is None else f"not predictable: {forecast.why}",
        noise=noise,
    )


def of_rounds(plan: Plan, seconds: float, spread: float, changes: int) -> float:
    """Return the error in seconds of a difference to be measured, at CONFIDENCE.

    A round of the step, of `seconds`, is off by `spread`; so many `changes` take turns at once."""
    first = seconds if seconds < plan.counted else 0.0  # of a turn, which does not count
    a_round = (changes + UNCHANGED) * (first + max(seconds, BLOCK))
    rounds = max(plan.fewest, int(plan.seconds / plan.generations / a_round))
    return spread * math.sqrt(DIFFERENCE / (plan.generations * rounds))


def of_kernels(record: Prediction, processes: int, model: bool = True) -> float:
    """Return the part of a prediction's half-width that is of kernels, and of the model if `model`."""
    assert record.predicted is not None
    half = record.predicted.seconds - record.predicted.low
    of_model = 0.0 if model else MODEL * sum(map(abs, record.parts.values()))
    rest = math.hypot(_of_turns(record.step, processes, record.noise), of_model)
    return math.sqrt(max(0.0, half**2 - rest**2))


def measured(
    record: Prediction, unchanged: Entry, twin: Entry, changed: Entry, contest: str | None, choosing: bool = False
) -> Prediction:
    """Add the measurement and the verdict to a prediction; no verdict for few rounds, as for `choosing`."""
    for entry in (changed, unchanged, twin):
        if entry.status != "ok" or not entry.blocks:
            failed = f"does {entry.reason}" if entry.status == "wrong" else f"{entry.status}: {entry.reason}"
            return refused(record, f"{entry.framework.name} {failed}")
    short = changed.ended or CHOOSING * choosing
    fewest = SOON if short else stats.FEWEST
    delta, same = difference(changed, (unchanged, twin), fewest), difference(twin, (unchanged,), fewest)
    if delta is None or same is None:
        return refused(record, FEW)
    resolution = max(abs(same.center), same.half(1 - CONFIDENCE))
    # With one process of each, the spread of processes is only known from the two unchanged ones.
    several = len({generation for generation, _, _ in changed.blocks}) > 1
    half = delta.half(1 - CONFIDENCE) if several else math.hypot(delta.half(1 - CONFIDENCE), same.center)
    brought = Expected(delta.center, delta.center - half, delta.center + half, CONFIDENCE)
    step = sum(times(unchanged) + times(twin)) / len(times(unchanged) + times(twin))
    record = as_long(record, step)
    verdict = judge(record.predicted, brought, resolution) if not short else None
    why = UNDECIDED if verdict is None and record.predicted else None if record.predicted else _lasting(record.reason)
    record = replace(record, reason=short or why if record.predicted else "; ".join(filter(None, (why, short))) or None)
    return replace(record, measured=brought, resolution=resolution, verdict=verdict, contest=contest)


def recorded(
    foreseen: Sequence[PredictedChange], entries: Sequence[Entry], file: RunFile, contest: str | None, choosing: bool
) -> list[PredictedChange]:
    """Record changes with their measurements; `entries`: the step, its control run, a step for each."""
    unchanged, twin, *changed = entries
    timed = []
    for candidate, entry in zip(foreseen, changed, strict=True):
        prediction = measured(candidate.prediction, unchanged, twin, entry, contest, choosing)
        file.append(prediction)
        timed.append(replace(candidate, prediction=prediction))
    return timed


def _lasting(reason: str | None) -> str:
    """Return why there is no prediction, without the reasons of an earlier contest."""
    return "; ".join(x for x in (reason or "").split("; ") if x != CHOOSING and not x.startswith(LEFT_OUT))


def as_long(record: Prediction, step: float) -> Prediction:
    """Scale a prediction to a step of so many seconds: it was watched and timed at different times."""
    by, predicted = step / record.step, record.predicted
    if predicted is not None:
        predicted = Expected(by * predicted.seconds, by * predicted.low, by * predicted.high, predicted.confidence)
    parts = {what: by * seconds for what, seconds in record.parts.items()}
    return replace(record, predicted=predicted, parts=parts, noise=by * record.noise, step=step)


def refused(record: Prediction, why: str) -> Prediction:
    """Return the record of a change that could not be measured, or not again."""
    before = record.reason if record.reason not in (None, UNDECIDED) else ""
    reasons = [*filter(None, [before]), *([why] if why not in before else [])]
    return replace(record, measured=None, resolution=None, verdict=None, contest=None, reason="; ".join(reasons))


def failed(candidate: PredictedChange) -> bool:
    """Return whether a change was to be timed and could not be; a longer run would not help."""
    return candidate.prediction.measured is None and FEW not in (candidate.prediction.reason or "")


def judge(predicted: Expected | None, brought: Expected, resolution: float) -> str | None:
    """Compare a prediction with the measurement; None where it is undecided.

    Confirmed: off by a tenth of the measurement, or the resolution, at most, and with the same sign. Refuted: so for
    every value in the measured interval."""
    if predicted is None:
        return None
    verdict = _compared(predicted.seconds, brought.seconds, resolution)
    nearest = min(max(predicted.seconds, brought.low), brought.high)
    return verdict if verdict == _compared(predicted.seconds, nearest, resolution) or verdict != "refuted" else None


def _compared(predicted: float, brought: float, resolution: float) -> str:
    if max(abs(predicted), abs(brought)) <= resolution:
        return "below resolution"
    near = abs(predicted - brought) <= max(NEAR * abs(brought), resolution)
    return "confirmed" if near and predicted * brought > 0 else "refuted"


def difference(of: Entry, unchanged: Sequence[Entry], fewest: int = stats.FEWEST) -> stats.Estimate | None:
    """Estimate seconds of an entry less the mean of unchanged ones in the same rounds.

    Wall times are taken where clocks differ. None where each generation has fewer rounds than `fewest`; from
    stats.FEWEST on the mean is trimmed."""
    import numpy as np

    by = "wall" if len({clock(entry) for entry in (of, *unchanged)}) > 1 else ""
    seconds, others = by_round(of, by), [by_round(entry, by) for entry in unchanged]
    groups: dict[int, list[float]] = {}
    for at in sorted(seconds.keys() & others[0].keys()):
        there = [other[at] for other in others if at in other]
        groups.setdefault(at[0], []).append(seconds[at] - sum(there) / len(there))
    generations = [np.array(x) for x in groups.values() if len(x) >= fewest]
    if not generations:
        return None
    return stats.generations(generations, stats.TRIMMED if min(map(len, generations)) >= stats.FEWEST else 0.0)


def joined(changes: Sequence[Named]) -> str:
    """Join the words of all changes into one."""
    return "+".join(change.words for change in changes)


def together(step: Step, changes: Sequence[Named]) -> Step:
    """Apply all changes to a step."""
    for change in changes:
        step = change.apply(step)
    return step


def conflict(step: Step, changes: Sequence[Named]) -> str | None:
    """Return the reason why the changes cannot all be made at once, or None."""
    for named in changes:
        if why := named.refused(step):
            return f"{named.words}: {why}"
        step = named.apply(step)
    return None


def at_once(parts: Sequence[Part]) -> list[Part]:
    """Merge parts of several changes: ratios of the same kernels (equal name and seconds) multiply."""
    alike: dict[tuple[str, float], list[Part]] = {}
    for part in parts:
        alike.setdefault((part.what, part.of), []).append(part)
    merged = []
    for (what, unchanged), same in alike.items():
        merged += same if len(same) == 1 or not unchanged else [_of_all(what, unchanged, same)]
    return merged


def _of_all(what: str, unchanged: float, same: Sequence[Part]) -> Part:
    """Multiply the ratios of parts of the same kernels; seconds of new page faults add."""
    come = sum(max(0.0, part.seconds) for part in same) if what == PAGE_FAULTS else 0.0
    ratios = [1 + (min(0.0, part.seconds) if what == PAGE_FAULTS else part.seconds) / unchanged for part in same]
    change = (unchanged + come) * math.prod(ratios) - unchanged
    rests = [math.prod(ratios[:i] + ratios[i + 1 :]) for i in range(len(same))]
    half = math.hypot(*(rest * (part.high - part.low) / 2 for rest, part in zip(rests, same, strict=True)))
    if what == PAGE_FAULTS:
        known = [x for x in same if abs(x.seconds) > (x.high - x.low) / 4]  # to ± twice itself
        half = max([half, *(abs(change) * (x.high - x.low) / 2 / abs(x.seconds) for x in known)])
    return around(what, change, half, unchanged)
