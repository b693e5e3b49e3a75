"""Two independent times of a row: the trace's, and that of the step's calls, replayed in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from macro.explaining.attribute import Attribution, split
from macro.explaining.rows import OUTSIDE, Row, called, together
from macro.watching.watch import Side
from reports import stats
from reports.explanation import Agreement

LARGE = 0.05  # of the step: from here on a row's time is cross-checked
WITHIN = 0.10  # of the row
ERROR = 0.05  # of each of the two tests
FREES = "free"  # the column of a replayed call that only gives memory back


def agreement(
    name: str,
    side: Side,
    attributions: Sequence[Attribution],
    group: Mapping[str, tuple[str, ...]],
    by_name: Mapping[str, Row],
) -> list[Agreement]:
    """Compare trace and replay, for each row of at least a twentieth of the step.
    `name`: of the side, a or b."""
    import numpy as np

    step = float(np.mean([np.mean(process.levels["P0"]) for process in side.processes]))
    traced: dict[tuple[str, ...], list[float]] = {}
    for process in attributions:
        for rows, seconds in _by_round(process).items():
            traced.setdefault(rows, []).extend(seconds)
    replayed = _replayed(side, group, by_name)
    agreements = []
    for rows, seconds in sorted(traced.items(), key=lambda item: -float(np.mean(item[1]))):
        mean = float(np.mean(seconds))
        if mean < LARGE * step or rows == (OUTSIDE,):
            continue
        again = replayed.get(rows)
        if again is None:
            verdict, sigma = "one witness", _error(seconds)
        else:
            verdict, sigma = equivalent(seconds, again)
        replay = None if again is None else float(np.mean(again))
        agreements.append(Agreement(name, called(rows, by_name), mean, replay, sigma, verdict))
    return agreements


def equivalent(seconds: Sequence[float], again: Sequence[float]) -> tuple[str, float]:
    """Test whether two means differ by less than a tenth of the first; return verdict and standard error.
    Two one-sided tests of 5 % (Schuirmann 1987); `cannot tell` where the 90 % interval reaches over the margin."""
    import numpy as np

    mean = float(np.mean(seconds))
    margin, difference = WITHIN * mean, float(np.mean(again)) - mean
    errors = _error(seconds), _error(again)
    sigma = float(np.hypot(*errors))
    if min(len(seconds), len(again)) < 2:
        return "cannot tell", sigma
    half = stats.quantile(_degrees(errors, (len(seconds), len(again))), 1 - ERROR) * sigma
    if abs(difference) + half <= margin:
        return "agree", sigma
    return ("disagree" if abs(difference) - half > margin else "cannot tell"), sigma


def _error(seconds: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    import numpy as np

    return float(np.std(seconds, ddof=1) / len(seconds) ** 0.5) if len(seconds) > 1 else 0.0


def _degrees(errors: Sequence[float], counts: Sequence[int]) -> float:
    """Return the degrees of freedom, by Welch and Satterthwaite."""
    below = sum(error**4 / (count - 1) for error, count in zip(errors, counts, strict=True))
    return sum(error**2 for error in errors) ** 2 / below if below else float(min(counts) - 1)


def _by_round(process: Attribution) -> dict[tuple[str, ...], list[float]]:
    """Return seconds of a step by row, a mean for each round, whose steps are alike."""
    import numpy as np

    sums: dict[tuple[str, ...], Any] = {}
    for (rows, _), seconds in process.cells.items():
        sums[rows] = sums.get(rows, 0.0) + np.array(seconds)
    rounds = np.array(process.rounds)
    return {
        rows: [float(seconds[rounds == number].mean()) for number in sorted(set(process.rounds))]
        for rows, seconds in sums.items()
    }


def _replayed(
    side: Side, group: Mapping[str, tuple[str, ...]], by_name: Mapping[str, Row]
) -> dict[tuple[str, ...], list[float]]:
    """Return seconds by row, a number for each replay."""
    replayed: dict[tuple[str, ...], list[float]] = {}
    for process in side.processes:
        for _, seconds in process.replays:
            sums: dict[tuple[str, ...], float] = {}
            for (rows, _), took in zip(process.calls, seconds, strict=True):
                key = together(rows, group)
                sums[key] = sums.get(key, 0.0) + took
            for key, total in split(sums, group, by_name).items():
                replayed.setdefault(key, []).append(total)
    return replayed


def closure(side: Side) -> dict[str, float | None]:
    """Return the sum of replayed calls over the plain step beside it, with and without frees."""
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
