"""The comparisons of a run summed up in one sentence."""

from __future__ import annotations

import math

from reports import table, texts, units
from reports.record import Comparison, Result, Run

WORDS = {"slower": "slower", "faster": "faster", "same": "the same", "unresolved": "unresolved"}


def said(run: Run) -> list[str]:
    """What the notes say; of those of one plan, which name it, the last of each topic."""
    last: dict[object, list[str]] = {}
    for i, note in enumerate(run.notes):
        if note.topic not in texts.TOPICS:
            last[(note.topic, note.data["of"]) if "of" in note.data else i] = note.data.get("sentences", [])
    return [sentence for sentences in last.values() for sentence in sentences]


def sentence(run: Run) -> str | None:
    """How many are slower, faster, the same, unresolved, and the largest difference that is certain; nothing where
    nothing was compared."""
    compared = [
        (c, _cases(contest.results, c))
        for contest in run.contests
        for c in contest.comparisons
        if c.ratio and c.verdict in WORDS
    ]
    if not compared:
        return None
    verdicts = [c.verdict for c, _ in compared]
    counts = [f"{verdicts.count(verdict)} {word}" for verdict, word in WORDS.items() if verdicts.count(verdict)]
    summary = f"Of {len(compared)} comparisons {', '.join(counts)}" if len(compared) > 1 else ""
    certain = [pair for pair in compared if pair[0].verdict in ("slower", "faster")]
    if not certain:
        return f"{summary}." if summary else None
    most, (contender, baseline) = max(certain, key=lambda pair: abs(math.log(pair[0].ratio or 1.0)))
    at, first, second = table.contrast(contender, baseline)
    ratio = units.ratio(most.ratio, most.low, most.high)
    largest = f"{first} takes {ratio} times what {second} takes, {at}"
    return f"{summary}; the largest difference: {largest}." if summary else f"Here {largest}."


def _cases(results: tuple[Result, ...], comparison: Comparison) -> tuple[Result, Result]:
    by_name = {result.name: result for result in results if result.role == "measured"}
    return by_name[comparison.contender], by_name[comparison.baseline]
