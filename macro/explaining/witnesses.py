"""Two witnesses of a row: the trace's seconds and those of the step's own calls, replayed in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from macro.explaining.attribute import Attribution
from macro.explaining.rows import OUTSIDE, Row, called, together
from macro.watching.watch import Side
from reports.explanation import Agreement

LARGE = 0.05  # of the step: from here on a row needs two witnesses
WITHIN = 0.10  # of the row, or two standard deviations
FREES = "free"  # the column of a replayed call that only gives memory back


def agreement(
    name: str,
    side: Side,
    attributions: Sequence[Attribution],
    group: Mapping[str, tuple[str, ...]],
    known: Mapping[str, Row],
) -> list[Agreement]:
    """Whether trace and replay agree, for each row of at least a twentieth of the step. `name`: of the side, a or b."""
    import numpy as np

    step = float(np.mean([np.mean(process.levels["P0"]) for process in side.processes]))
    traced: dict[tuple[str, ...], list[float]] = {}
    for process in attributions:
        sums: dict[tuple[str, ...], list[float]] = {}
        for (rows, _), seconds in process.cells.items():
            sums[rows] = [x + y for x, y in zip(sums.get(rows, [0.0] * process.steps), seconds, strict=True)]
        for rows, seconds in sums.items():
            traced.setdefault(rows, []).extend(seconds)
    replayed = _replayed(side, group)
    found = []
    for rows, seconds in sorted(traced.items(), key=lambda item: -sum(item[1])):
        mean = float(np.mean(seconds))
        if mean < LARGE * step or rows == (OUTSIDE,):
            continue
        again = replayed.get(rows)
        sigma = float(np.std(seconds) / max(1, len(seconds)) ** 0.5)
        if again is None:
            found.append(Agreement(name, called(rows, known), mean, None, sigma, "one witness"))
            continue
        sigma = float((sigma**2 + np.var(again) / len(again)) ** 0.5)
        near = abs(mean - float(np.mean(again))) <= max(WITHIN * mean, 2 * sigma)
        verdict = "agree" if near else "disagree"
        found.append(Agreement(name, called(rows, known), mean, float(np.mean(again)), sigma, verdict))
    return found


def _replayed(side: Side, group: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[float]]:
    """Seconds of each row, a number a replay."""
    found: dict[tuple[str, ...], list[float]] = {}
    for process in side.processes:
        for _, seconds in process.replays:
            sums: dict[tuple[str, ...], float] = {}
            for (rows, _), took in zip(process.calls, seconds, strict=True):
                key = together(rows, group)
                sums[key] = sums.get(key, 0.0) + took
            for key, total in sums.items():
                found.setdefault(key, []).append(total)
    return found


def closure(side: Side) -> dict[str, float | None]:
    """The replayed calls' sum over the plain step beside it: with what only frees memory, and without."""
    import numpy as np

    pairs = [(process, beside, row) for process in side.processes for beside, row in process.replays]
    if not pairs:
        return {"replay": None, "replay without frees": None}
    free = [
        (sum(t for (_, column), t in zip(p.calls, row, strict=True) if column == FREES), sum(row), beside)
        for p, beside, row in pairs
    ]
    return {
        "replay": float(np.median([total / beside for _, total, beside in free])),
        "replay without frees": float(np.median([(total - freed) / beside for freed, total, beside in free])),
    }
