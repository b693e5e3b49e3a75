"""Ranges that ratios are expected in on Intel and AMD alike; the ranges are data, in expectations.json."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from micro.findings.select import interval

if TYPE_CHECKING:
    from reports.record import Run

FILE = Path(__file__).with_name("expectations.json")


@dataclass(frozen=True)
class Expectation:
    """A range of a value."""

    what: str
    low: float
    high: float = math.inf
    _: KW_ONLY
    pair: str = ""  # pattern that `CONTENDER / BASELINE`, two case names, matches; empty: a value that is no ratio
    isa: str = ""  # instruction set of the contender's kernel, where the range is of one
    firm: bool = True  # a value outside is a fault of the harness, else only unusual
    usual: str = ""  # the range seen so far, where that is narrower

    def say(self, value: float, shown: str) -> str:
        """Return a sentence on a value; `shown`: the value as text."""
        bound = f"{self.low:g} to {self.high:g}" if math.isfinite(self.high) else f"above {self.low:g}"
        usual = f", usually {self.usual}" if self.usual else ""
        kind, outside = ("expected", "NOT as expected") if self.firm else ("usual", "not so here")
        outcome = f"as {kind}" if self.low <= value <= self.high else outside
        return f"{self.what}: {shown}; {kind} on Intel and AMD {bound}{usual}: {outcome}."


@functools.cache
def expectations() -> dict[str, Expectation]:
    """Return every expectation by its name."""
    import json

    return {name: Expectation(**row) for name, row in json.loads(FILE.read_bytes()).items()}


def expected(run: Run) -> list[str]:
    """Compare the ratios of a run with the ranges that they are expected in."""
    isa = {result.name: result.isa_observed for result in run.results}
    return [
        row.say(x.ratio, interval(x))
        for row in expectations().values()
        for contest in run.contests
        for x in contest.comparisons
        if x.ratio is not None
        and row.pair
        and re.fullmatch(row.pair, f"{x.contender} / {x.baseline}")
        and row.isa in ("", isa[x.contender])
    ]
