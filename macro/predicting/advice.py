"""Advice: every change that applies is predicted, promising ones are timed, those that help combined."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import heap
from kernels.libs import preload
from macro import changes
from macro.changes import Named
from macro.changes.base import BaselineProfile, Step
from macro.predicting import judged, script_step
from macro.predicting.forecast import Predictor
from macro.predicting.judged import PredictedChange, Say
from micro.worker.process import POOLS
from reports.prediction import ADVICE, LEFT_OUT
from reports.record import Expected, Note, Run

if TYPE_CHECKING:
    from reports.store import RunFile


WORTH = 0.01  # of a step: a smaller saving is no advice
BEST = 3  # changes that are timed again, and combined
COUNTED = 0.2  # seconds of an unchanged step from which on a turn's first step counts, in turns that choose
WATCHED, ALONE, FIRST = 0.05, 0.15, 0.1  # of the budget; FIRST is for turns of all changes
LAST = 1 - WATCHED - ALONE - FIRST  # at most, for turns of the best


def advise(step: Step, seconds: float, file: RunFile, say: Say) -> str:
    """Write the advice into the run file; return the shell file of what helped most.

    `seconds`: of all but proofs of equal work and what the fewest rounds of the best changes take."""
    began = time.monotonic()
    asked = every = list(_candidates(step))
    with tempfile.TemporaryDirectory(prefix="kernelgap-advise-") as arrays:
        foreseer = Predictor(step, seconds * WATCHED, seconds * ALONE, file, say, Path(arrays))
        say(f"{len(asked)} changes apply: {', '.join(named.words for named in asked)}")
        asked = foreseer.worth(asked, WORTH)
        foreseer.look(asked)
        wanted = [x for x in foreseer.each(asked) if x.there and promising(x)]
        plan = replace(step.plan, seconds=FIRST * seconds, fewest=judged.SOON, counted=COUNTED)
        started, known = time.monotonic(), (len(file.run.contests), len(file.run.notes))
        tried = foreseer.turns(replace(step, plan=plan), wanted, WORTH) if wanted else []
        best = chosen(step, tried)
        sets = [best[:count] for count in range(2, len(best) + 1)]
        others = [foreseer.both(both) for both in sets if applies(step, both)]
        each, proving = _starting(file.run, known, time.monotonic() - started, len(wanted))
        left = began + seconds + proving + foreseer.proving - time.monotonic()
        left -= each * (len(best) + len(others) + judged.UNCHANGED)
        last = replace(step, plan=replace(step.plan, seconds=min(max(0.0, left), LAST * seconds)))
        timed = foreseer.turns(last, [*best, *others]) if best else []
    winner = combined(timed[: len(best)], timed[len(best) :])
    text = _shell(step, winner)
    order = [x.words for x in sorted(timed[: len(best)], key=_seconds) if saves(x) and fits(step, x, winner)]
    data = {
        "edits": edits(foreseer.before) if step.script else {},
        "winner": winner.words if winner else None,
        "order": order,
        "shell": text,
        "worth": WORTH,
    }
    file.append(Note(ADVICE, {**data, "tried": [x.words for x in tried], "applied": len(every)}))
    return text


def _starting(run: Run, known: tuple[int, int], took: float, count: int) -> tuple[float, float]:
    """Return seconds that each process took to start, and those that proofs of equal work took.

    The turns of `count` changes took `took` seconds; `known`: contests and notes in the file before them."""
    contests, notes = run.contests[known[0] :], [x.data for x in run.notes[known[1] :] if x.topic == script_step.TOPIC]
    seconds: Mapping[str, float] = contests[-1].seconds if contests else {}
    proving = seconds.get("proving", 0.0)
    measuring = seconds.get("measuring", sum(x["seconds"] for x in notes) if notes else took)
    return max(0.0, took - measuring - proving) / (count + judged.UNCHANGED * max(1, len(notes))), proving


def _candidates(step: Step) -> Sequence[Named]:
    """Return each change that applies, at the values that it tries."""
    every = [
        Named(change, value)
        for name in changes.names()
        for change in [changes.known(name)]
        for value in change.tries(step)
    ]
    return [named for named in every if named.refused(step) is None]


def edits(before: BaselineProfile) -> dict[str, tuple[str, float]]:
    """Return what may be written into a program and the share of a step saved at most, the largest first."""
    shares = {name: (what, most / before.seconds) for name, (what, most) in before.edits.items()}
    return dict(sorted((item for item in shares.items() if item[1][1] >= WORTH), key=lambda item: -item[1][1]))


def promising(candidate: PredictedChange) -> bool:
    """Return whether a change is worth timing: it costs only a variable, or kernels alone do not rule it out."""
    predicted = candidate.prediction.predicted
    if all(not named.change.code for named in candidate.changes) or predicted is None:
        return True
    kernels = judged.of_kernels(candidate.prediction, candidate.changed.plan.generations)
    return predicted.seconds - kernels < -WORTH * candidate.prediction.step


def chosen(step: Step, tried: Sequence[PredictedChange]) -> list[PredictedChange]:
    """Return the changes that help most, by few rounds and kernels alone, and that apply together."""
    best: list[PredictedChange] = []
    hopeful = [x for x in tried if may_help(x, _likely(x))]
    for candidate in sorted(hopeful, key=_likely):
        if len(best) < BEST and applies(step, [*best, candidate]):
            best.append(candidate)
    return best


def may_help(candidate: PredictedChange, seconds: float) -> bool:
    """Return whether so many seconds are worth reporting, of a change that was not left out."""
    return LEFT_OUT not in (candidate.prediction.reason or "") and -seconds > WORTH * candidate.prediction.step


def saves(candidate: PredictedChange) -> bool:
    """Return whether a change certainly saves enough to report, and more than two unchanged steps differ by."""
    measured = candidate.prediction.measured
    if measured is None or measured.high >= 0 or not may_help(candidate, measured.seconds):
        return False
    return -measured.seconds > (candidate.prediction.resolution or 0.0)


def _seconds(candidate: PredictedChange) -> float:
    return candidate.prediction.measured.seconds if candidate.prediction.measured else 0.0


def _likely(candidate: PredictedChange) -> float:
    """Return the mean of measured and predicted seconds, each weighted as its interval is narrow."""
    if candidate.prediction.measured is None:
        return 0.0
    known = [x for x in (candidate.prediction.measured, candidate.prediction.predicted) if x is not None]
    weights = [1 / max(x.high - x.low, 1e-9) ** 2 for x in known]
    return sum(x.seconds * weight for x, weight in zip(known, weights, strict=True)) / sum(weights)


def applies(step: Step, together: Sequence[PredictedChange]) -> bool:
    """Return whether each change applies behind those before it; one change has one value."""
    every = [named for x in together for named in x.changes]
    return len({named.change.name for named in every}) == len(every) and judged.conflict(step, every) is None


def fits(step: Step, candidate: PredictedChange, winner: PredictedChange | None) -> bool:
    """Return whether a change is in the winner, or can be combined with it."""
    return winner is None or {*candidate.names} <= {*winner.names} or applies(step, [winner, candidate])


def combined(best: Sequence[PredictedChange], others: Sequence[PredictedChange]) -> PredictedChange | None:
    """Return the best change, or a combination that saves more by more than unchanged steps differ by."""
    winner = min((x for x in best if saves(x)), key=_seconds, default=None)
    if winner is None:  # together they may
        return min((x for x in others if saves(x)), key=_seconds, default=None)
    for more in sorted((x for x in others if saves(x)), key=lambda x: (len(x.changes), _seconds(x))):
        if len(more.names) > len(winner.names) and _seconds(more) < _seconds(winner) - (
            more.prediction.resolution or 0.0
        ):
            winner = more
    return winner


def _shell(step: Step, winner: PredictedChange | None) -> str:
    where = f", batch {step.plan.batch}, in {step.framework.name}" if step.script is None else ""
    name = f"{step.plan.network.name}{where}"
    if winner is None:
        return f"# Nothing that was tried makes a {step.plan.phase} of {name} faster by {100 * WORTH:.0f} %.\n"
    measured: Expected | None = winner.prediction.measured
    assert measured is not None
    saved = -100 * measured.seconds / winner.prediction.step
    about = f"{winner.words}: a {step.plan.phase} of {name} takes {saved:.1f} % less."
    return shell(step, winner.changed, [named.edit(step) for named in winner.changes], about)


def variables(unchanged: Step, changed: Step) -> dict[str, str]:
    """Return the variables of the changed step's process that the unchanged one lacks."""
    new, old = (_variables(step) for step in (changed, unchanged))
    return {name: value for name, value in new.items() if old.get(name) != value}


def _variables(step: Step) -> dict[str, str]:
    setting = step.setting
    settings = heap.variables(setting.heap) | preload.variables(setting.preload) | setting.knobs.get("variables", {})
    return dict.fromkeys(POOLS, str(setting.threads)) | {name: str(value) for name, value in settings.items()}


def shell(unchanged: Step, changed: Step, code: Sequence[str], about: str) -> str:
    """Format a file to be sourced: variables, and as comments what is to be written into the program."""
    lines = [f"# {about}", *(f"# In the program: {line}" for line in code if line)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(unchanged, changed).items()]
    return "\n".join(lines) + "\n"
