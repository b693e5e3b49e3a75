"""What was chosen by a contest's result is measured again: whoever is best of several in the same rounds was lucky in
them, and his ratio is too good. In fresh rounds, at other places, it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from micro.planning.benchmark import Request
from micro.planning.contest import Contest, parse

if TYPE_CHECKING:
    from reports import record


def again(
    asked: Request, measured: record.Contest, word: str, question: str, names: Sequence[str], *, in_turn: bool = False
) -> list[Contest]:
    """A contest of these of its cases, each against the first, or `in_turn` against the one before it; `word` stands
    for the first of its name. None where another device than the one that is asked measured it."""
    cases = [parse(name) for name in names]
    if any(case.setting.device != asked.settings[0].device for case in cases):
        return []
    planned = tuple(asked.case(case.problem, case.variant, case.setting) for case in cases)
    pairs = tuple((i - 1, i) for i in range(1, len(planned))) if in_turn else ()
    rest = measured.contest.partition("/")[2]
    return [Contest(f"{word}/{rest}", question, measured.differs, planned, pairs)]
