"""The fastest case of each contest, as the last sentence of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports import flat, table, units
from reports.record import Contest, Result, Run

MOST = 6  # contests whose winners are listed; of more, the number of wins of each
RIVALS = 2  # cases named beside a winner that may be as fast


@dataclass(frozen=True)
class Winner:
    """The fastest case of a contest by its ratio to the common baseline."""

    contest: Contest
    label: str
    text: str  # its time and ratio, and the cases that may be as fast


def sentence(run: Run) -> str | None:
    """Return the fastest case of every contest, or the number of wins of each; None without ratios."""
    winners = [x for contest in run.contests if (x := _winner(contest))]
    if not winners:
        return None
    if len(winners) > MOST:
        wins = Counter(x.label for x in winners).most_common(MOST)
        return f"Fastest in {len(winners)} contests: {', '.join(f'{label} in {count}' for label, count in wins)}."
    places = _places([x.contest for x in winners])
    return "Fastest: " + "; ".join(f"{at}{x.text}" for at, x in zip(places, winners, strict=True)) + "."


def _winner(contest: Contest) -> Winner | None:
    """Return the winner among variants, or of a question that asks which; None without ratios to one baseline."""
    pairs = [x for x in contest.ranked if x[0].ratio is not None]
    asks = contest.differs.startswith("variant") or contest.question.startswith("which ")
    if not asks or len({x.baseline for x, _, _ in pairs}) != 1:
        return None
    best, contender, baseline = min(pairs, key=lambda pair: pair[0].ratio or 1.0)
    labels = {x.contender: table.contrast(case, baseline)[1] for x, case, _ in pairs}
    base, won = table.contrast(contender, baseline)[2], (best.ratio or 1.0) < 1
    limit = (best.high or 0.0) if won else 1.0
    rivals = [labels[x.contender] for x, _, _ in pairs if (x.low or 0.0) <= limit and not (won and x is best)]
    rivals += [base] * (won and best.verdict != "faster")
    near = f" (perhaps as fast: {units.first(rivals, RIVALS)})" if rivals else ""
    if not won:
        return Winner(contest, base, f"{_time(base, baseline)}{near}")
    among = f", chosen from {len(pairs)}" if len(pairs) > 1 else ""
    ratio = units.ratio(best.ratio, best.low, best.high)
    label = labels[best.contender]
    return Winner(contest, label, f"{_time(label, contender)}, {ratio} of {base}{among}{near}")


def _time(label: str, result: Result) -> str:
    return f"{label} {units.seconds(result.seconds.median if result.seconds else None)}"


def _places(contests: Sequence[Contest]) -> Iterator[str]:
    """Yield what sets each contest apart, as a prefix: its values of the named axes in which contests differ."""
    firsts = [contest.measured[0] for contest in contests]
    fields = [result.problem | {"variant": result.variant} for result in firsts]
    named = dict.fromkeys(word.partition(":")[0] for result in firsts for word in result.name.split("/")[1:])
    if any(contest.differs.startswith("variant") for contest in contests):
        named.pop("variant", None)  # the winner's label
    apart = [axis for axis in named if len({str(values.get(axis)) for values in fields}) > 1]
    for result, values in zip(firsts, fields, strict=True):
        forms = result.axes | {"variant": "word"}
        texts = {axis: flat.plain(flat.word(values[axis])) for axis in apart if axis in values}
        words = [x if forms.get(axis) == "word" else f"{axis}:{x}" for axis, x in texts.items()]
        yield f"{' '.join(words)}: " if words else ""
