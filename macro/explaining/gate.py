"""The gate of two scripts: the ratio of their steps over several processes of each, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from macro.watching import load
from macro.watching.plain import Pair
from reports import busy, gate, stats, units

MARGIN = 0.01  # of a verdict, as in other commands


def judged(pairs: Sequence[Pair], names: Sequence[str], share: float, stopped: str = "") -> gate.Gate:
    """Return the outcome for the second script, from pairs of processes that took turns.

    The interval includes the spread between processes, whatever differs between them (address layout, heap).
    `stopped`: why there are fewer pairs than asked for."""
    groups = logs(pairs)
    if len(groups) < stats.FEWEST:
        reason = stopped or next((x.ended for x in pairs if x.ended), "") or "too few rounds"
        remedy = f"let both run longer (a gate needs {stats.FEWEST} processes of each, with {stats.FEWEST} rounds)"
        return gate.gate(
            share, [], [f"{reason}: {len(groups)} of {stats.FEWEST} processes of each count; {remedy}"], ""
        )
    judgment = stats.nested(groups, MARGIN)
    assert judgment.shown is not None  # of enough groups and rounds
    figures = judgment.shown.center, judgment.shown.low, judgment.shown.high
    ratio = units.ratio(*figures)
    text = f"{names[1]} takes {ratio} times {names[0]}'s step ({len(groups)} processes of each)"
    return gate.gate(
        share,
        [gate.Tested(text, judgment.verdict, *figures, _doubt(pairs))],
        [],
        f"--runs {2 * len(groups)} or a longer --budget",
    )


def logs(pairs: Sequence[Pair]) -> list[Any]:
    """Return the logarithms of the second step over the first by round, for each pair with enough rounds."""
    import numpy as np

    return [np.log(np.array(x.seconds[1]) / np.array(x.seconds[0])) for x in pairs if x.rounds >= stats.FEWEST]


def _doubt(pairs: Sequence[Pair]) -> str:
    """Return why a difference may be other processes' work; empty if they took little time from the scripts."""
    taken = load.taken([block for pair in pairs for block in pair.load]) or 0.0
    if taken <= busy.TAKEN:
        return ""
    return f"other processes took {taken:.0%} of the processor time available to them: repeat on a quiet machine"
