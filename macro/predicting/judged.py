"""Predicted changes and combinations of changes, and the comparison of predictions with measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

Say = Callable[[str], None]  # reports progress
MODEL = 0.12  # relative error of a prediction from isolated kernels; from 79 pairs older than docs/whatif.md's
BETWEEN = 0.03  # of a step: the difference of two of its processes; from the same pairs
DIFFERENCE = 1.5  # in variances of a round: variance of a step less the mean of the two unchanged steps
UNCHANGED = 2  # steps in all turns besides changes: the unchanged step and its control run
SOON = 3  # rounds after which a change that does not help is left out
CHOOSING = "timed in few rounds, to choose what is timed again"
FEW = "too few rounds: a longer --budget"
NOT_TIMED = "not timed"


@dataclass(frozen=True)
class PredictedChange:
    """A change, or a combination, with the prediction recorded before it is timed."""

    changes: Sequence[Named]
    changed: Step  # the step with the changes applied
    prediction: Prediction
    identity: Mapping[str, Any] = field(default_factory=dict)  # reported by its process; empty if it never ran
    forecast: Forecast | None = None  # the prediction's parts; None if the prediction is from the run file

    @property
    def words(self) -> str:
        return joined(self.changes)

    @property
    def names(self) -> list[str]:
        """The words of each change, such as `threads=2`."""
        return [change.words for change in self.changes]

    @property
    def there(self) -> bool:
        """True if the change is to be timed, as it shows in the process."""
        return NOT_TIMED not in (self.prediction.reason or "")


def expected(forecast: Forecast, step: float, processes: int = 1, noise: float = 0.0) -> Expected | None:
    """Sum a forecast's parts into an expected change of a step of `step` seconds; None if not predictable.

    Independent errors add in quadrature: those of the parts, of the model (an isolated kernel behaves as in the step;
    common to all parts), of differences between processes (`processes` of each), and `noise`, of the rounds to come."""
    if forecast.why is not None:
        return None
    center = sum(part.seconds for part in forecast.parts)
    model = MODEL * sum(abs(part.seconds) for part in forecast.parts)
    beside = model, _of_turns(step, processes, noise)
    below = math.hypot(*(part.seconds - part.low for part in forecast.parts), *beside)
    above = math.hypot(*(part.high - part.seconds for part in forecast.parts), *beside)
    return Expected(center, center - below, center + above, CONFIDENCE)


def _of_turns(step: float, processes: int, noise: float) -> float:
    """Return the error in seconds from differences between processes and from `noise` of rounds."""
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
    """Return the record of a prediction, to be written before the changed step is timed.

    `seconds`: of the unchanged step; `threads`: recorded if its setting has none; `noise`: from `of_rounds`."""
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
    """Return the expected error in seconds, at CONFIDENCE, of a difference measured in turns.

    `seconds`: of a step; `spread`: the error of one round; `changes`: how many are timed in the same turns."""
    first = seconds if seconds < plan.counted else 0.0  # seconds of a turn's first step if it does not count
    a_round = (changes + UNCHANGED) * (first + max(seconds, BLOCK))
    rounds = max(plan.fewest, int(plan.seconds / plan.generations / a_round))
    return spread * math.sqrt(DIFFERENCE / (plan.generations * rounds))


def of_kernels(record: Prediction, processes: int, model: bool = True) -> float:
    """Return the half-width of a prediction's interval due to kernels and, if `model`, to the model."""
    assert record.predicted is not None
    half = record.predicted.seconds - record.predicted.low
    of_model = 0.0 if model else MODEL * sum(map(abs, record.parts.values()))
    rest = math.hypot(_of_turns(record.step, processes, record.noise), of_model)
    return math.sqrt(max(0.0, half**2 - rest**2))


def measured(
    record: Prediction, unchanged: Entry, twin: Entry, changed: Entry, contest: str | None, choosing: bool = False
) -> Prediction:
    """Add measurement and verdict to a prediction; no verdict from few rounds, as in turns of `choosing`."""
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
    # With one process of each, the spread between processes is only known from the two unchanged processes.
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
    """Record changes with their measurements; `entries`: unchanged, control run, then an entry per change."""
    unchanged, twin, *changed = entries
    timed = []
    for candidate, entry in zip(foreseen, changed, strict=True):
        prediction = measured(candidate.prediction, unchanged, twin, entry, contest, choosing)
        file.append(prediction)
        timed.append(replace(candidate, prediction=prediction))
    return timed


@contextmanager
def kept(
    foreseen: Sequence[PredictedChange], entries: Sequence[Entry], file: RunFile, choosing: bool
) -> Iterator[None]:
    """Record the changes with the rounds so far if an interrupt ends the block."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        unchanged, twin, *_ = entries
        if unchanged.blocks and twin.blocks:
            recorded(foreseen, entries, file, None, choosing)
        raise


def _lasting(reason: str | None) -> str:
    """Return the reason why there is no prediction, without reasons that only held for an earlier contest."""
    return "; ".join(x for x in (reason or "").split("; ") if x not in (CHOOSING, FEW) and not x.startswith(LEFT_OUT))


def as_long(record: Prediction, step: float) -> Prediction:
    """Scale a prediction to a step of `step` seconds, as the step's time may have changed since watching."""
    by, predicted = step / record.step, record.predicted
    if predicted is not None:
        predicted = Expected(by * predicted.seconds, by * predicted.low, by * predicted.high, predicted.confidence)
    parts = {what: by * seconds for what, seconds in record.parts.items()}
    return replace(record, predicted=predicted, parts=parts, noise=by * record.noise, step=step)


def refused(record: Prediction, why: str) -> Prediction:
    """Return the record without measurement and verdict, with `why` added to its reasons."""
    before = record.reason if record.reason not in (None, UNDECIDED) else ""
    reasons = [*filter(None, [before]), *([why] if why not in before else [])]
    return replace(record, measured=None, resolution=None, verdict=None, contest=None, reason="; ".join(reasons))


def failed(candidate: PredictedChange) -> bool:
    """Return whether a change has no measurement for a reason that a longer run would not remove."""
    return candidate.prediction.measured is None and FEW not in (candidate.prediction.reason or "")


def judge(predicted: Expected | None, brought: Expected, resolution: float) -> str | None:
    """Compare a prediction with the measurement; return the verdict, or None if undecided.

    Confirmed: same sign, and off by at most a tenth of the measurement or the resolution. Refuted: not so for any
    value in the measured interval."""
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
    """Estimate an entry's seconds less the mean of the unchanged entries in the same rounds.

    If the entries' clocks differ, wall times are compared. None if no generation has `fewest` rounds. The mean is
    trimmed if every generation used has at least stats.FEWEST rounds."""
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
    """Join the words of all changes by `+`."""
    return "+".join(change.words for change in changes)


def together(step: Step, changes: Sequence[Named]) -> Step:
    """Return the step with all changes applied in order."""
    for change in changes:
        step = change.apply(step)
    return step


def conflict(step: Step, changes: Sequence[Named]) -> str | None:
    """Return the reason why the changes do not apply together in this order, or None."""
    for named in changes:
        if why := named.refused(step):
            return f"{named.words}: {why}"
        step = named.apply(step)
    return None


def at_once(parts: Sequence[Part]) -> list[Part]:
    """Merge the parts of several changes; parts of the same kernels (equal name and seconds) multiply."""
    alike: dict[tuple[str, float], list[Part]] = {}
    for part in parts:
        alike.setdefault((part.what, part.of), []).append(part)
    merged = []
    for (what, unchanged), same in alike.items():
        merged += same if len(same) == 1 or not unchanged else [_of_all(what, unchanged, same)]
    return merged


def _of_all(what: str, unchanged: float, same: Sequence[Part]) -> Part:
    """Merge parts of the same kernels by multiplying their ratios; seconds of additional page faults add."""
    come = sum(max(0.0, part.seconds) for part in same) if what == PAGE_FAULTS else 0.0
    ratios = [1 + (min(0.0, part.seconds) if what == PAGE_FAULTS else part.seconds) / unchanged for part in same]
    change = (unchanged + come) * math.prod(ratios) - unchanged
    rests = [math.prod(ratios[:i] + ratios[i + 1 :]) for i in range(len(same))]
    half = math.hypot(*(rest * (part.high - part.low) / 2 for rest, part in zip(rests, same, strict=True)))
    if what == PAGE_FAULTS:
        known = [x for x in same if abs(x.seconds) > (x.high - x.low) / 4]  # half-width below twice the value
        half = max([half, *(abs(change) * (x.high - x.low) / 2 / abs(x.seconds) for x in known)])
    return around(what, change, half, unchanged)
