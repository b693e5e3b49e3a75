"""Second contests of cases that were chosen by a first one's results.

The best of several in the same rounds was lucky in those rounds, and its ratio is too good. In fresh rounds, at
other places, it is not."""

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
    """Return a contest of some cases of a measured one, each against the first.

    `in_turn`: each against the one before; `word`: the first word of the contest's name. Empty if another device
    than the requested one measured the first contest."""
    cases = [parse(name) for name in names]
    if any(case.setting.device != asked.settings[0].device for case in cases):
        return []
    planned = tuple(asked.case(case.problem, case.variant, case.setting) for case in cases)
    pairs = tuple((i - 1, i) for i in range(1, len(planned))) if in_turn else ()
    rest = measured.contest.partition("/")[2]
    return [Contest(f"{word}/{rest}", question, measured.differs, planned, pairs)]
