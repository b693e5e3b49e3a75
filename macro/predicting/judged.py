"""A prediction against what was measured: the rule, and the records of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from macro.changes.base import CONFIDENCE, Effect, Forecast, Step
from macro.predicting.foreseen import Foreseen
from macro.timing.entry import Entry, Plan
from macro.timing.groups import BLOCK
from macro.timing.results import by_round, clock, times
from reports import stats
from reports.prediction import LEFT_OUT, NEAR, UNDECIDED
from reports.record import Expected, Prediction

MODEL = 0.12  # of what kernels alone say: by so much a step may do else; from 79 pairs older than docs/whatif.md's
BETWEEN = 0.03  # of a step: by so much two processes of it differ; from the same pairs
DIFFERENCE = 1.5  # variances of a round: of a step less the mean of two that are in memory with it
UNCHANGED = 2  # steps in all turns: as it is, and its twin
SOON = 3  # rounds from which on what does not help is left out
CHOOSING = "timed in few rounds, to choose what is timed again"
FEW = "too few rounds: a longer --budget"


def expected(forecast: Forecast, step: float, processes: int = 1, noise: float = 0.0) -> Expected | None:
    """Of a step of so many seconds the sum of its parts. Their errors are of different kernels; that of the model, by
    which a kernel does in a step what it does alone, is one for all, and processes of one step differ: so many of each
    will be measured. `noise`: by what so many rounds then may be off, as CONFIDENCE has it."""
    if forecast.why is not None:
        return None
    center = sum(part.seconds for part in forecast.parts)
    model = MODEL * sum(abs(part.seconds) for part in forecast.parts)
    beside = model, _of_turns(step, processes, noise)
    below = math.hypot(*(part.seconds - part.low for part in forecast.parts), *beside)
    above = math.hypot(*(part.high - part.seconds for part in forecast.parts), *beside)
    return Expected(center, center - below, center + above, CONFIDENCE)


def _of_turns(step: float, processes: int, noise: float) -> float:
    """What is of no kernel: what processes of a step differ by, so many of each, and what rounds will be off by."""
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
    """The line that stands in the file before the changed step is timed. `seconds`: of the unchanged one, which
    has so many `threads` where its setting does not say; `noise`: as it is `of_rounds`."""
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
    """By how many seconds a difference will be off, as CONFIDENCE has it, of a step that takes so long and of which one
    round is off by `spread`: of as many rounds as its turns will have with so many changes made at once."""
    first = seconds if seconds < plan.counted else 0.0  # of a turn, which does not count
    a_round = (changes + UNCHANGED) * (first + max(seconds, BLOCK))
    rounds = max(plan.fewest, int(plan.seconds / plan.generations / a_round))
    return spread * math.sqrt(DIFFERENCE / (plan.generations * rounds))


def of_kernels(record: Prediction, processes: int, model: bool = True) -> float:
    """Of a prediction's half-width what is of kernels alone, and of the model where that is wanted."""
    assert record.predicted is not None
    half = record.predicted.seconds - record.predicted.low
    of_model = 0.0 if model else MODEL * sum(map(abs, record.parts.values()))
    rest = math.hypot(_of_turns(record.step, processes, record.noise), of_model)
    return math.sqrt(max(0.0, half**2 - rest**2))


def measured(
    record: Prediction, unchanged: Entry, twin: Entry, changed: Entry, contest: str | None, choosing: bool = False
) -> Prediction:
    """The same with what was measured, and the verdict; none of few rounds, as where they are for `choosing`."""
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
    # Of one process of each, what two unchanged ones differ by is all that is known of what processes do.
    half = delta.half(1 - CONFIDENCE) if _several(changed) else math.hypot(delta.half(1 - CONFIDENCE), same.center)
    brought = Expected(delta.center, delta.center - half, delta.center + half, CONFIDENCE)
    step = sum(times(unchanged) + times(twin)) / len(times(unchanged) + times(twin))
    record = as_long(record, step)
    verdict = judge(record.predicted, brought, resolution) if not short else None
    why = UNDECIDED if verdict is None and record.predicted else None if record.predicted else _lasting(record.reason)
    record = replace(record, reason=short or why if record.predicted else "; ".join(filter(None, (why, short))) or None)
    return replace(record, measured=brought, resolution=resolution, verdict=verdict, contest=contest)


def _lasting(reason: str | None) -> str:
    """Why there is no prediction, without what was said of an earlier contest."""
    return "; ".join(x for x in (reason or "").split("; ") if x != CHOOSING and not x.startswith(LEFT_OUT))


def as_long(record: Prediction, step: float) -> Prediction:
    """The same shares of a step that takes so many seconds: it was watched at another time than it was timed."""
    by, predicted = step / record.step, record.predicted
    if predicted is not None:
        predicted = Expected(by * predicted.seconds, by * predicted.low, by * predicted.high, predicted.confidence)
    parts = {what: by * seconds for what, seconds in record.parts.items()}
    return replace(record, predicted=predicted, parts=parts, noise=by * record.noise, step=step)


def _several(entry: Entry) -> bool:
    """Whether it ran in several processes, whose spread is in its error."""
    return len({generation for generation, _, _ in entry.blocks}) > 1


def refused(record: Prediction, why: str) -> Prediction:
    """The same, of what could not be measured, or not again."""
    before = record.reason if record.reason not in (None, UNDECIDED) else ""
    reasons = [*filter(None, [before]), *([why] if why not in before else [])]
    return replace(record, measured=None, resolution=None, verdict=None, contest=None, reason="; ".join(reasons))


def failed(candidate: Foreseen) -> bool:
    """Whether it was to be timed and could not be; a longer run would not help."""
    return candidate.prediction.measured is None and FEW not in (candidate.prediction.reason or "")


def judge(predicted: Expected | None, brought: Expected, resolution: float) -> str | None:
    """Confirmed: off by a tenth of what was measured at most, or by what two unchanged steps differ by, and with the
    same sign. What is refuted is so wherever in its interval the measured truth is; else none."""
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
    """Seconds of a step, of one less the mean of the unchanged in the same rounds: the first of them, and those others
    that were in memory with it. By the wall where their clocks differ. None of fewer rounds in each generation; of
    stats.FEWEST the mean is trimmed."""
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
