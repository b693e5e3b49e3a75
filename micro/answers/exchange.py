"""Answers of micro/memory.py about words exchanged between threads of a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from micro.findings.select import Pair, grouped, interval
from reports.record import Run

TITLES: Mapping[str, str] = {
    "load": "Loads of shared memory whose words lie {} apart from lane to lane, times those of neighbors (lanes whose "
    "words are in one bank wait for each other)",
    "add-shared": "Additions to {} words of a block's shared memory, times those to a word a thread",
    "add-global": "Additions to {} words of all blocks, times those to a word a thread",
}


def exchange_answer(run: Run) -> list[str]:
    """Report the ratios of each kind in order, and shuffles beside loads."""
    return [_sentence(group) for group in grouped(run, "exchange/")]


def _sentence(group: list[Pair]) -> str:
    how, shown = group[0].contender.problem.how, [interval(x.comparison) for x in group]
    if how == "shuffle":
        return f"A swap of two lanes by shuffle takes {shown[0]} times a load of shared memory."
    spreads = ", ".join(str(x.contender.problem.spread) for x in group)
    return f"{TITLES[how].format(spreads)}: {', '.join(shown)}."
