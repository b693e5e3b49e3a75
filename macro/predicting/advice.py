"""Advice: predict every change that applies, time the promising changes, and combine those that help."""

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
from macro.predicting import durations, judged, script_step
from macro.predicting.forecast import Predictor
from macro.predicting.judged import PredictedChange, Say
from macro.watching import load
from micro.worker.process import POOLS
from reports.prediction import ADVICE, LEFT_OUT
from reports.record import Expected, Note, Run

if TYPE_CHECKING:
    from reports.store import RunFile


WORTH = 0.01  # least saving that is advised, as a share of a step
BEST = 3  # changes that are timed again, and combined
COUNTED = 0.2  # from so many seconds of an unchanged step on, a turn's first step counts while choosing
WATCHED, ALONE, FIRST = 0.05, 0.15, 0.1  # shares of the budget for watching, isolated kernels, and turns of all changes
LAST = 1 - WATCHED - ALONE - FIRST  # largest share of the budget for turns of the best changes


def advise(step: Step, seconds: float, file: RunFile, say: Say) -> str:
    """Write the advice into the run file; return the text of a shell file that applies the best change.

    `seconds`: the budget, without proofs of equal work; the fewest rounds of the best changes may exceed it."""
    began = time.monotonic()
    asked = every = list(_candidates(step))
    with tempfile.TemporaryDirectory(prefix="kernelgap-advise-") as arrays:
        trials = [x.trial for x in every if x.trial]
        foreseer = Predictor(step, seconds * WATCHED, seconds * ALONE, file, say, Path(arrays), trials)
        say(f"{len(asked)} changes apply: {', '.join(named.words for named in asked)}")
        if step.script:
            sooner = (WATCHED + ALONE + FIRST) * seconds
            say(durations.advising(len(asked), min(len(asked), BEST), sooner, seconds, load.busy()))
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
    """Return the mean seconds of starting a process, and the seconds of proofs of equal work.

    `took`: seconds of the turns of `count` changes; `known`: numbers of contests and notes in the file before them."""
    contests, notes = run.contests[known[0] :], [x.data for x in run.notes[known[1] :] if x.topic == script_step.TOPIC]
    seconds: Mapping[str, float] = contests[-1].seconds if contests else {}
    proving = seconds.get("proving", 0.0)
    measuring = seconds.get("measuring", sum(x["seconds"] for x in notes) if notes else took)
    return max(0.0, took - measuring - proving) / (count + judged.UNCHANGED * max(1, len(notes))), proving


def _candidates(step: Step) -> Sequence[Named]:
    """Return all changes that apply to the step, each with every value that the change proposes."""
    every = [
        Named(change, value)
        for name in changes.names()
        for change in [changes.known(name)]
        for value in change.tries(step)
    ]
    return [named for named in every if named.refused(step) is None]


def edits(before: BaselineProfile) -> dict[str, tuple[str, float]]:
    """Return edits of a program by name, each with the largest share of a step that it saves, best first."""
    shares = {name: (what, most / before.seconds) for name, (what, most) in before.edits.items()}
    return dict(sorted((item for item in shares.items() if item[1][1] >= WORTH), key=lambda item: -item[1][1]))


def promising(candidate: PredictedChange) -> bool:
    """Return whether a change is worth timing: it needs no edit, or isolated kernels do not rule it out."""
    predicted = candidate.prediction.predicted
    if all(not named.change.code for named in candidate.changes) or predicted is None:
        return True
    kernels = judged.of_kernels(candidate.prediction, candidate.changed.plan.generations)
    return predicted.seconds - kernels < -WORTH * candidate.prediction.step


def chosen(step: Step, tried: Sequence[PredictedChange]) -> list[PredictedChange]:
    """Return at most BEST changes that likely save most and apply together, best first."""
    best: list[PredictedChange] = []
    hopeful = [x for x in tried if may_help(x, _likely(x))]
    for candidate in sorted(hopeful, key=_likely):
        if len(best) < BEST and applies(step, [*best, candidate]):
            best.append(candidate)
    return best


def may_help(candidate: PredictedChange, seconds: float) -> bool:
    """Return whether `seconds` (negative: a saving) are worth advising, for a change not left out."""
    return LEFT_OUT not in (candidate.prediction.reason or "") and -seconds > WORTH * candidate.prediction.step


def saves(candidate: PredictedChange) -> bool:
    """Return whether a change saves significantly, more than WORTH, and more than unchanged steps differ."""
    measured = candidate.prediction.measured
    if measured is None or measured.high >= 0 or not may_help(candidate, measured.seconds):
        return False
    return -measured.seconds > (candidate.prediction.resolution or 0.0)


def _seconds(candidate: PredictedChange) -> float:
    return candidate.prediction.measured.seconds if candidate.prediction.measured else 0.0


def _likely(candidate: PredictedChange) -> float:
    """Return the mean of measured and predicted seconds, weighted by inverse squared interval widths."""
    if candidate.prediction.measured is None:
        return 0.0
    known = [x for x in (candidate.prediction.measured, candidate.prediction.predicted) if x is not None]
    weights = [1 / max(x.high - x.low, 1e-9) ** 2 for x in known]
    return sum(x.seconds * weight for x, weight in zip(known, weights, strict=True)) / sum(weights)


def applies(step: Step, together: Sequence[PredictedChange]) -> bool:
    """Return whether all changes apply together, in this order; no change may occur twice."""
    every = [named for x in together for named in x.changes]
    return len({named.change.name for named in every}) == len(every) and judged.conflict(step, every) is None


def fits(step: Step, candidate: PredictedChange, winner: PredictedChange | None) -> bool:
    """Return whether a change is in the winner, or can be combined with it."""
    return winner is None or {*candidate.names} <= {*winner.names} or applies(step, [winner, candidate])


def combined(best: Sequence[PredictedChange], others: Sequence[PredictedChange]) -> PredictedChange | None:
    """Return the best change, or a combination that saves more (beyond the resolution), or None."""
    winner = min((x for x in best if saves(x)), key=_seconds, default=None)
    if winner is None:  # no single change saves enough, but a combination may
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
        return f"# No change that was tried makes a {step.plan.phase} of {name} {100 * WORTH:.0f} % faster.\n"
    measured: Expected | None = winner.prediction.measured
    assert measured is not None
    saved = -100 * measured.seconds / winner.prediction.step
    about = f"{winner.words}: a {step.plan.phase} of {name} takes {saved:.1f} % less."
    return shell(step, winner.changed, [named.edit(step) for named in winner.changes], about)


def variables(unchanged: Step, changed: Step) -> dict[str, str]:
    """Return the environment variables of the changed step's process that the unchanged process lacks."""
    new, old = (_variables(step) for step in (changed, unchanged))
    return {name: value for name, value in new.items() if old.get(name) != value}


def _variables(step: Step) -> dict[str, str]:
    setting = step.setting
    settings = heap.variables(setting.heap) | preload.variables(setting.preload) | setting.knobs.get("variables", {})
    return dict.fromkeys(POOLS, str(setting.threads)) | {name: str(value) for name, value in settings.items()}


def shell(unchanged: Step, changed: Step, code: Sequence[str], about: str) -> str:
    """Return a shell file to be sourced: exports of variables, and edits of the program as comments."""
    lines = [f"# {about}", *(f"# In the program: {line}" for line in code if line)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(unchanged, changed).items()]
    return "\n".join(lines) + "\n"
