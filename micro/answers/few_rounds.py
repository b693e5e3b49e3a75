"""Summaries of contests with too few rounds for an interval: times without certainty."""

from __future__ import annotations

from collections.abc import Sequence

from reports import units
from reports.record import Contest, Result, Run

MOST = 12  # contests that are reported one by one


def sentences(run: Run) -> list[str]:
    """Summarize each contest that has times but no ratio."""
    ranked = [sentence for contest in run.contests if (sentence := _ranked(contest))]
    more = [f"{len(ranked) - MOST} more contests have times without a ratio."] if len(ranked) > MOST else []
    return [*ranked[:MOST], *more]


def _ranked(contest: Contest) -> str | None:
    """Rank by medians: `conv c:96 r:5: by 2 rounds, not certain: fft-pyfftw-kept 57.5 ms, torch 138 ms.`."""
    short = [x for x in contest.comparisons if x.verdict == "unresolved" and x.ratio is None]
    if not short or any(x.ratio is not None for x in contest.comparisons):
        return None
    names = {name for x in short for name in (x.baseline, x.contender)}
    timed = [(x.seconds.median, x) for x in contest.results if x.seconds is not None and x.name in names]
    if len(timed) < 2:
        return None
    timed.sort(key=lambda pair: pair[0])
    rounds = len(timed[0][1].samples)
    where, labels = _words([result for _, result in timed])
    times = ", ".join(f"{words} {units.seconds(took)}" for words, (took, _) in zip(labels, timed, strict=True))
    return f"{where}: by {units.counted(rounds, 'round')}, not certain: {times}."


def _words(results: Sequence[Result]) -> tuple[str, list[str]]:
    """Split case names into their common words and the remaining words of each."""
    names = [[word for word in result.name.split("/") if word != "threads:1"] for result in results]
    shared = [word for word in names[0] if all(word in other for other in names)]
    labels = [" ".join(word.removeprefix("variant:") for word in name if word not in shared) for name in names]
    return " ".join(word.removeprefix("variant:") for word in shared), [words or "as by default" for words in labels]
