"""Every change that applies, predicted; the promising ones made; those that help combined while they still do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from macro import changes
from macro.changes import Named
from macro.changes.base import Step
from macro.predicting import judged, own_turns, typed
from macro.predicting.forecast import Foreseer
from macro.predicting.foreseen import Foreseen
from macro.predicting.foreseen import together as with_all
from macro.predicting.made import make
from macro.processes import confirmed
from macro.timing.entry import FEWEST
from reports.advice import TOPIC
from reports.record import Expected, Note

if TYPE_CHECKING:
    from reports.store import RunFile

WORTH = 0.01  # of a step: a saving of less is no advice
BEST = 3  # changes that are timed again, and combined
WATCHED, ALONE, FIRST, LAST = 0.1, 0.2, 0.3, 0.4  # of the budget; the last two are turns: of all, of the best ones


def advise(step: Step, seconds: float, file: RunFile, say: Callable[[str], None]) -> str:
    """Into the run file; the shell file of what helped most, which is empty but for a comment where nothing did."""
    asked = list(_candidates(step))
    foreseer = Foreseer(step, seconds * WATCHED, seconds * ALONE, file, say)
    say(f"{len(asked)} changes apply: {', '.join(one.words for one in asked)}")
    foreseer.look(asked)
    foreseen = [foreseer.single(one) for one in asked]
    wanted = [one for one in foreseen if one.there and promising(one)]
    first = replace(step, plan=replace(step.plan, seconds=FIRST * seconds, fewest=FEWEST))
    turns = make if step.script is None else own_turns.make
    tried = turns(first, wanted, file, say, hopeless=WORTH) if wanted else []
    best = chosen(step, tried)
    others = _combinations(foreseer, best) if best else []
    last = replace(step, plan=replace(step.plan, seconds=LAST * seconds))
    told = turns(last, [*best, *others], file, say) if best else []
    winner = combined(told[: len(best)], told[len(best) :])
    if step.script is None and (step.plan.phase, step.plan.batch) == ("step", step.plan.network.batch):
        _confirm(step, winner, seconds, say)
    text = _shell(step, winner)
    order = [one.words for one in sorted(told[: len(best)], key=_seconds) if saves(one)]
    edits = {name: list(about) for name, about in _edits(step, foreseer)}
    data = {"edits": edits, "winner": winner.words if winner else None, "order": order, "shell": text, "worth": WORTH}
    file.append(Note(TOPIC, {**data, "tried": [one.words for one in tried], "applied": len(asked)}))
    return text


def _candidates(step: Step) -> Sequence[Named]:
    """Each change that applies, at the values that it tries."""
    every = [
        Named(change, value)
        for name in changes.names()
        for change in [changes.known(name)]
        for value in change.tries(step)
    ]
    return [one for one in every if one.refused(step) is None]


def _confirm(step: Step, winner: Foreseen | None, seconds: float, say: Callable[[str], None]) -> None:
    """For division `tuned`, whose threads and batch are asked for: what else won, or nothing. A shorter advice, which
    sees less, leaves what a longer one confirmed."""
    if seconds < (longer := confirmed.budget(step.plan.network, step.framework)):
        say(f"--division tuned stays what a longer advice confirmed; --budget {longer:.0f}s replaces it")
        return
    network, threads = step.plan.network, step.setting.threads
    setting = replace(winner.changed.setting, threads=threads) if winner else step.setting
    if winner and (setting, winner.changed.framework) != (step.setting, step.framework):
        confirmed.keep(network, step.framework, winner.changed.framework, setting, seconds)
    else:
        confirmed.forget(network, step.framework)


def _edits(step: Step, foreseer: Foreseer) -> Iterator[tuple[str, tuple[str, float]]]:
    """Of a program of one's own, the changes that are written into it: what, and the share of a step that the kinds of
    work take which they can save."""
    for change in map(changes.known, changes.names()):
        if step.script is not None and change.code and change.saves:
            share = foreseer.before.kinds(*change.saves) / foreseer.before.seconds
            if share >= WORTH:
                yield change.name, (change.code, share)


def promising(one: Foreseen) -> bool:
    """What costs a variable alone is tried in any case; of the rest what kernels alone do not rule out."""
    predicted = one.told.predicted
    if all(not named.change.code for named in one.changes) or predicted is None:
        return True
    step = one.told.step
    kernels = math.sqrt(max(0.0, (predicted.seconds - predicted.low) ** 2 - (judged.BETWEEN * step) ** 2))
    return predicted.seconds - kernels < -WORTH * step


def chosen(step: Step, tried: Sequence[Foreseen]) -> list[Foreseen]:
    """Those that help most and can be made together: of two allocators the better one."""
    best: list[Foreseen] = []
    for one in sorted((one for one in tried if helps(one)), key=_seconds):
        if len(best) < BEST and applies(step, [*best, one]):
            best.append(one)
    return best


def helps(one: Foreseen) -> bool:
    """For certain, and enough to be worth a word: it is timed again."""
    found = one.told.measured
    return found is not None and found.high < 0 and -found.seconds > WORTH * one.told.step


def saves(one: Foreseen) -> bool:
    """It helps, and by more than two unchanged steps differ by."""
    return helps(one) and -_seconds(one) > (one.told.resolution or 0.0)


def _seconds(one: Foreseen) -> float:
    return one.told.measured.seconds if one.told.measured else 0.0


def _combinations(foreseer: Foreseer, best: Sequence[Foreseen]) -> list[Foreseen]:
    """The best with each of the others, and all of them, as far as they apply to each other."""
    asked = [(best[0], one) for one in best[1:]] + ([tuple(best)] if len(best) > 2 else [])
    return [foreseer.both(together) for together in asked if applies(foreseer.step, together)]


def applies(step: Step, together: Sequence[Foreseen]) -> bool:
    """Whether each applies behind those before it."""
    for one in together:
        if any(named.refused(step) is not None for named in one.changes):
            return False
        step = with_all(step, one.changes)
    return True


def combined(best: Sequence[Foreseen], others: Sequence[Foreseen]) -> Foreseen | None:
    """The best one; then, change by change, what adds more than two unchanged steps differ by."""
    winner = min((one for one in best if saves(one)), key=_seconds, default=None)
    while winner is not None:
        had = winner
        more = [x for x in others if len(x.changes) == len(had.changes) + 1 and {*had.names} < {*x.names} and saves(x)]
        better = min(more, key=_seconds, default=None)
        if better is None or _seconds(better) >= _seconds(had) - (better.told.resolution or 0.0):
            break
        winner = better
    return winner


def _shell(step: Step, winner: Foreseen | None) -> str:
    batch = f", batch {step.plan.batch}" if step.script is None else ""
    name = f"{step.plan.network.name}{batch}, in {step.framework.name}"
    if winner is None:
        return f"# Nothing that was tried makes a {step.plan.phase} of {name} faster by {100 * WORTH:.0f} %.\n"
    found: Expected | None = winner.told.measured
    assert found is not None
    about = f"{winner.words}: a {step.plan.phase} of {name} takes {-100 * found.seconds / winner.told.step:.1f} % less."
    return typed.shell(step, winner.changed, [named.edit(step) for named in winner.changes], about)
