"""Cross-checks of an explanation's figures: the system's account, names, replayed calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from reports import quality, units
from reports.explanation import Explanation

KERNEL = ("OS memory", "OS other")  # columns of code of the operating system
WITNESSES = (
    ("agree", "agree within 10 %"),
    ("disagree", "disagree"),
    ("cannot tell", "cannot tell"),
    ("one witness", "have one witness"),
)


def lines(explained: Explanation) -> Iterator[str]:
    """Yield the lines on consistency in an explanation's text."""
    yield from _system(explained)
    yield "in no named kernel or no span: " + _shares(explained, explained.step, partial(quality.unnamed, explained))
    yield _witnesses(explained)
    watched = {side: sum(x.seconds(side) for x in explained.cells) for side in "ab"}
    compared = _shares(explained, watched, lambda side: watched[side] - _compared(explained, side))
    yield f"with one witness only, rows of less than a twentieth among them: {compared}"


def _system(explained: Explanation) -> list[str]:
    """Return the operating system's share by samples, and by its own accounts.

    Samples are of watched steps, accounts of watched and plain ones."""
    sampled = {side: sum(x.seconds(side) for x in explained.cells if x.column in KERNEL) for side in "ab"}
    sides = [
        f"{explained.name(side)} {units.seconds(sampled[side])} by samples, {_account(explained, side)}"
        for side in explained.system
    ]
    return [f"in the operating system: {'; '.join(sides)}"] if sides else []


def _account(explained: Explanation, side: str) -> str:
    """Return the system's own account of a side's steps."""
    plain, same = units.seconds(explained.system[side]), explained.watched_system.get(side)
    if same is None:
        return f"{plain} by its own account of plain steps"
    return f"{units.seconds(same)} by its own account of the same steps, {plain} of plain ones"


def _shares(explained: Explanation, totals: Mapping[str, float], seconds: Callable[[str], float]) -> str:
    """Return shares of each side's step, plain or watched."""
    shares = [f"{explained.name(side)} {max(0.0, seconds(side)) / (totals[side] or 1.0):.1%}" for side in "ab"]
    return f"{', '.join(shares)} of a step"


def _witnesses(explained: Explanation) -> str:
    """Return how many rows agree by trace and replay, and those that do not."""
    verdicts = [row.verdict for row in explained.agreement]
    counts = [f"{verdicts.count(verdict)} {words}" for verdict, words in WITNESSES if verdicts.count(verdict)]
    apart = [x for x in explained.agreement if x.verdict == "disagree"]
    return f"rows timed in the trace and by making their calls again (replay): {', '.join(counts) or 'none'}" + "".join(
        f"; {explained.name(x.side)} {x.row}: trace {units.seconds(x.trace)}, replay {_replay(x.replay)}" for x in apart
    )


def _compared(explained: Explanation, side: str) -> float:
    """Return seconds of a watched step for which there is a replay."""
    return sum(x.trace for x in explained.agreement if x.side == side and x.verdict != "one witness")


def _replay(seconds: float | None) -> str:
    return "–" if seconds is None else units.seconds(seconds)
