"""Trials of changes: the unchanged step, its control run, and changed steps, in turns."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macro import frameworks
from macro.changes.base import CONFIDENCE, Step
from macro.equality import gate
from macro.predicting import judged
from macro.predicting.foreseen import Foreseen
from macro.timing import results, resume, turns
from macro.timing.entry import TWIN, Entry, Plan, Taken
from macro.timing.results import times
from reports import next_run, units
from reports.prediction import LEFT_OUT

if TYPE_CHECKING:
    from reports.store import RunFile

MARGIN = 0.01
ROUNDS = 10  # at least


def make(
    step: Step,
    foreseen: Sequence[Foreseen],
    file: RunFile,
    say: Callable[[str], None],
    folder: Path,
    identity: Mapping[str, Any],
    hopeless: float | None = None,
) -> list[Foreseen]:
    """Time changes in turns with the unchanged step; return and record each with its measurement.
    `folder`: of the steps' inputs; `identity`: that an unchanged process reported already; `hopeless`: a share of the
    step: changes that certainly save less are left out after some rounds, and the others need no more."""
    twin = Entry(frameworks.find(f"{step.framework.name}~b"), step.setting, change=TWIN, identity=dict(identity))
    unchanged = Entry(step.framework, step.setting, identity=dict(identity))
    changed = [entered(step, x.changed, x.names, x.identity) for x in foreseen]
    for entry in (twin, unchanged, *changed):
        entry.warm = foreseen[0].prediction.step  # about, until it is started
    end = partial(drop, (unchanged, twin), changed, hopeless) if hopeless is not None else lambda: None
    contest = _take(step.plan, [unchanged, twin, *changed], file, say, folder, end)
    timed, choosing = [], hopeless is not None
    for candidate, entry in zip(foreseen, changed, strict=True):
        timed.append(
            replace(
                candidate, prediction=judged.measured(candidate.prediction, unchanged, twin, entry, contest, choosing)
            )
        )
        file.append(timed[-1].prediction)
    return timed


def entered(step: Step, changed: Step, names: Sequence[str], identity: Mapping[str, Any]) -> Entry:
    """Return the entry of a changed step in the plan of the unchanged one.
    `names`: of its changes; `identity`: that its process reported already."""
    batch = changed.plan.batch
    other = None if batch == step.plan.batch else batch
    again = _again(step, names)
    return Entry(
        changed.framework, changed.setting, identity=dict(identity), change="+".join(names), again=again, batch=other
    )


def _again(step: Step, names: Sequence[str]) -> str:
    """Return the command that makes the change again."""
    plan, setting = step.plan, step.setting
    line = f"python -m macro whatif {plan.named} {shlex.quote(step.framework.name)} {shlex.join(names)}"
    line += f" --batch {plan.batch} --phase {plan.phase} --threads {setting.threads} --heap {setting.heap}"
    variables = setting.knobs.get("variables", {})
    return line + "".join(f" --set {shlex.quote(f'{name}={value}')}" for name, value in variables.items())


def drop(unchanged: Sequence[Entry], changed: Sequence[Entry], hopeless: float) -> None:
    """Stop timing changes that save less than `hopeless` of a step.
    The difference of the unchanged step and its control run is added to each saving first. Stop all steps where
    nothing is left to compare."""
    steps = [seconds for entry in unchanged for seconds in times(entry)]
    step = sum(steps) / max(1, len(steps))
    first, *twins = unchanged
    apart = [difference for twin in twins if (difference := judged.difference(twin, (first,), judged.SOON))]
    luck = max((abs(difference.center) for difference in apart), default=0.0)
    for entry in changed:
        difference = judged.difference(entry, unchanged, judged.SOON)
        if difference is not None and difference.center - difference.half(1 - CONFIDENCE) - luck > -hopeless * step:
            rounds = units.counted(len(entry.blocks), "round")
            entry.ended = f"{LEFT_OUT} {rounds}, in which it saved less than {units.percent(100 * hopeless)}"
    if all(entry.ended or entry.status != "ok" for entry in changed):
        for entry in unchanged:
            entry.ended = "nothing is left to compare it with"


def _take(
    plan: Plan,
    taking: Sequence[Entry],
    file: RunFile,
    say: Callable[[str], None],
    folder: Path,
    end: Callable[[], None],
) -> str | None:
    """Take turns, resuming what the run file holds, and record the contest; return its name.
    None where no changed step does the unchanged one's work."""
    name = results.changed_name(plan, taking)
    by_name = {results.name(plan, entry): entry for entry in taking}
    earlier = resume.rounds(file.run, name)
    began, before = time.monotonic(), resume.spent(earlier, plan.fewest)
    seconds = gate.refuse_unequal(plan, taking, folder, say)
    if all(entry.status != "ok" for entry in taking if entry.change not in ("", TWIN)):
        return None  # there is nothing to compare with
    resume.restore(by_name, earlier)
    if earlier:
        end()  # what had been left out stays so

    def keep(taken: Taken) -> None:
        resume.keep(file, name, by_name, taken)
        end()

    seconds["measuring"] = before + turns.take(resume.left(plan, earlier), taking, folder, say, keep)
    seconds["wall"] = before + time.monotonic() - began
    if name not in [x.contest for x in file.run.contests]:
        record = results.changed(plan, taking, MARGIN, seconds)
        file.append(next_run.foreseen(record, next_run.spreads(file.run.environment)))
    return name
