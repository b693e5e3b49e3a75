"""Answers to most questions: the ratios of each contest in a sentence, below the contest's question.

Ranges in which ratios are expected on Intel and AMD alike are data, in expectations.json."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from micro.findings.select import interval, verdict
from reports import units

if TYPE_CHECKING:
    from reports.record import Comparison, Contest, Result, Run

FILE = Path(__file__).with_name("expectations.json")
FEW = 4  # most contenders that are all listed; of more contenders, the extremes
MOST = 12  # most contests with times but without ratios that are reported
SURE = ("faster", "slower")


def ratios(run: Run) -> list[str]:
    """Report the ratios of every contest of a run, then compare ratios with their expected ranges."""
    return [*_ratios(run.contests), *expected(run)]


def _ratios(contests: Sequence[Contest]) -> Iterator[str]:
    question = ""
    for contest in contests:
        for i, sentence in enumerate(_contest(contest)):
            if not i and contest.question != question:
                question = contest.question
                yield question[:1].upper() + question[1:]
            yield f"  {sentence}"


def _contest(contest: Contest) -> Iterator[str]:
    """Format `conv c:96 r:5, relative to torch: direct 0.92 [0.90, 0.94].`, a sentence per baseline."""
    by_baseline: dict[str, list[Comparison]] = {}
    for x in contest.comparisons:
        if x.ratio is not None:
            by_baseline.setdefault(x.baseline, []).append(x)
    for baseline, compared in by_baseline.items():
        where, labels = words([baseline, *(x.contender for x in compared)])
        subject = f"{where}, relative to {labels[baseline]}" if where else f"Relative to {labels[baseline]}"
        if len(compared) > FEW:
            ends = (extreme(compared, key=lambda x: x.ratio or 1.0) for extreme in (min, max))
            least, most = (f"{labels[x.contender]} {_ratio(x)}" for x in ends)
            yield f"{subject}: {len(compared)} ratios, from {least} to {most}."
        else:
            yield f"{subject}: {', '.join(f'{labels[x.contender]} {_ratio(x)}' for x in compared)}."


def _ratio(comparison: Comparison) -> str:
    doubt = "" if verdict(comparison) in SURE else f" ({verdict(comparison)})"
    return f"{interval(comparison)}{doubt}"


def words(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Split case names into the words common to all, and a label of the other words for each name."""
    parts = {name: [word for word in name.split("/") if word != "threads:1"] for name in names}
    shared = [word for word in parts[names[0]] if all(word in other for other in parts.values())]
    labels = {name: _text([word for word in part if word not in shared]) for name, part in parts.items()}
    where = _text([word for word in shared if not word.startswith("device:")])
    return where, {name: label or "the default" for name, label in labels.items()}


def _text(parts: Sequence[str]) -> str:
    return " ".join(word.removeprefix("variant:") for word in parts)


def few_rounds(run: Run) -> list[str]:
    """Summarize each contest that has times, but too few rounds for a ratio."""
    ranked = [sentence for contest in run.contests if (sentence := _ranked(contest))]
    more = [f"{len(ranked) - MOST} more contests have times without a ratio."] if len(ranked) > MOST else []
    return [*ranked[:MOST], *more]


def _ranked(contest: Contest) -> str | None:
    """Format `conv c:96 r:5: by 2 rounds, not certain: torch 138 ms, direct 140 ms.`, ranked by medians."""
    short = [x for x in contest.comparisons if x.verdict == "unresolved" and x.ratio is None]
    if not short or any(x.ratio is not None for x in contest.comparisons):
        return None
    names = {name for x in short for name in (x.baseline, x.contender)}
    timed = {x.name: x for x in contest.results if x.seconds is not None and x.name in names}
    if len(timed) < 2:
        return None
    ranked = sorted(timed.values(), key=_seconds)
    where, labels = words([x.name for x in ranked])
    times = ", ".join(f"{labels[x.name]} {units.seconds(_seconds(x))}" for x in ranked)
    head = where or contest.contest.replace("/", " ")
    return f"{head}: by {units.counted(len(ranked[0].samples), 'round')}, not certain: {times}."


def _seconds(result: Result) -> float:
    assert result.seconds is not None
    return result.seconds.median


@dataclass(frozen=True)
class Expectation:
    """Expected range: with `pair`, of the ratio of the cases that it matches; without, of a figure that is no ratio."""

    what: str
    low: float
    high: float = math.inf
    _: KW_ONLY
    kind: str = ""  # prefix of the names of the contests that it covers
    pair: str = ""  # regular expression of `CONTENDER / BASELINE`, two case names; empty: no ratio
    isa: str = ""  # instruction set of the contender's kernel; empty: any
    firm: bool = True  # a value outside is a fault of the harness, else only unusual
    usual: str = ""  # the range observed so far, if narrower

    def say(self, value: float, shown: str) -> str:
        """Return a sentence on a value; `shown`: the value as text."""
        bound = f"{self.low:g} to {self.high:g}" if math.isfinite(self.high) else f"above {self.low:g}"
        usual = f", usually {self.usual}" if self.usual else ""
        kind, outside = ("expected", "NOT as expected") if self.firm else ("usual", "not as usual")
        outcome = f"as {kind}" if self.low <= value <= self.high else outside
        return f"{self.what}: {shown}; {kind} on Intel and AMD {bound}{usual}: {outcome}."


@functools.cache
def expectations() -> dict[str, Expectation]:
    """Return every expectation by its name."""
    import json

    return {name: Expectation(**row) for name, row in json.loads(FILE.read_bytes()).items()}


def expected(run: Run) -> list[str]:
    """Return sentences that compare the ratios of a run with their expected ranges."""
    isa = {result.name: result.isa_observed for result in run.results}
    return [
        row.say(x.ratio, interval(x))
        for row in expectations().values()
        for contest in run.contests
        if contest.contest.startswith(row.kind)
        for x in contest.comparisons
        if x.ratio is not None
        and row.pair
        and re.fullmatch(row.pair, f"{x.contender} / {x.baseline}")
        and row.isa in ("", isa[x.contender])
    ]
