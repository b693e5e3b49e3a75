"""Sentences as rows of data: selected comparisons, their grouping, and a text with places for figures."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from micro.findings.select import Pair, faster, interval, pairs, verdict
from reports import units
from reports.record import Result, Run

FORMATS: Mapping[str, Callable[[Any], str]] = {
    "seconds": units.seconds,
    "bytes": units.binary,
    "rate": lambda value: units.scaled(value, "B/s"),
    "decimal": lambda value: units.scaled(value, "B"),
}


@dataclass(frozen=True)
class Phrase:
    """A sentence for each group of comparisons of one kind of contest.

    Places in a text: `a`, `b` (the cases of baseline and contender), `p`, `q` (their problems), `ratio`, `faster`
    (the ratio turned over), `verdict`, `comparison`, `pair`, `seconds_a`, `seconds_b`, `rate_a`, `rate_b` (of the
    problem's size, in bytes a second), `work` (FLOPs of b over those of a), `question`. In `text` they are those of
    the group's first comparison, and `items` are all, joined. Formats: those of FORMATS, and `words`."""

    kind: str  # of contests: how their names begin
    text: str
    item: str = ""
    by: str = "{contest}"  # what the comparisons of a group share; "" makes a group of each
    when: Callable[[Pair], bool] = lambda pair: True
    words: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    join: str = ", "

    def __call__(self, run: Run) -> list[str]:
        """Return the sentences of a run."""
        results = {result.name: result for result in run.results}
        groups: dict[str, list[dict[str, Any]]] = {}
        write = _Writer(self.words).vformat
        for i, pair in enumerate(pairs(run, self.kind)):
            if self.when(pair):
                places = _places(pair, results)
                groups.setdefault(write(self.by, (), places) if self.by else str(i), []).append(places)
        return [write(self.text, (), group[0] | {"items": self._items(group)}) for group in groups.values()]

    def _items(self, group: Sequence[Mapping[str, Any]]) -> str:
        return self.join.join(_Writer(self.words).vformat(self.item, (), places) for places in group)


def sentences(run: Run, answers: Iterable[Callable[[Run], list[str]]]) -> list[str]:
    """Return the sentences of several answers, one after another."""
    return [sentence for answer in answers for sentence in answer(run)]


def _places(pair: Pair, results: Mapping[str, Result]) -> dict[str, Any]:
    contest, comparison, a, b = pair
    return {
        "contest": contest.contest,
        "pair": pair,
        "question": contest.question,
        "a": a,
        "b": b,
        "p": a.problem,
        "q": b.problem,
        "ratio": interval(comparison),
        "faster": faster(comparison),
        "verdict": verdict(comparison),
        "seconds_a": _seconds(results.get(comparison.baseline)),
        "seconds_b": _seconds(results.get(comparison.contender)),
        "rate_a": _rate(a, results.get(comparison.baseline)),
        "rate_b": _rate(b, results.get(comparison.contender)),
        "comparison": comparison,
        "work": b.problem.flops / a.problem.flops if a.problem.flops else 1.0,
    }


def _seconds(result: Result | None) -> float | None:
    return result.seconds.median if result and result.seconds else None


def _rate(case: Any, result: Result | None) -> float | None:
    """Return the bytes a second of an operation that has a size."""
    seconds, size = _seconds(result), getattr(case.problem, "size", None)
    return size / seconds if size and seconds else None


class _Writer(string.Formatter):
    def __init__(self, words: Mapping[str, Callable[[Any], str]]) -> None:
        self._formats = {**FORMATS, **words}

    def format_field(self, value: Any, spec: str) -> str:
        return self._formats[spec](value) if spec in self._formats else str(super().format_field(value, spec))
