"""The gate: it stops a contender that is certainly slower than its baseline, and perhaps by a given share or more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from reports import busy, multiple_testing, table, units
from reports.record import Comparison, Note, Result, Run

Outcome: TypeAlias = Literal["passed", "failed", "no verdict"]
TOPIC = "gate"  # of its note in runs of kernels
CODES = {"passed": 0, "failed": 1, "no verdict": 2}  # exit codes
NAMED = 3  # contests that a sentence names at most


@dataclass(frozen=True)
class Gate:
    """The outcome of a gate."""

    share: float  # least slowdown that fails
    outcome: Outcome
    sentence: str
    ratio: float | None = None  # contender's time over the baseline's; null: several comparisons, or none
    low: float | None = None  # of its 95 % interval
    high: float | None = None

    @property
    def code(self) -> int:
        """Exit code of the command."""
        return CODES[self.outcome]


class Tested(NamedTuple):
    """A ratio that a gate tests, as text and as figures."""

    text: str  # such as `new.py takes 1.003 [0.995, 1.012] times old.py's step`
    verdict: str
    ratio: float
    low: float  # of the interval shown
    high: float
    doubt: str = ""  # why a slowdown may be the machine's; empty: it is not


def stops(verdict: str, high: float | None, share: float) -> bool:
    """Return whether a contender fails: significantly slower, and its interval reaches `share`."""
    return verdict == "slower" and high is not None and high >= 1 + share


def gate(share: float, tested: Sequence[Tested], missing: Sequence[str], remedy: str) -> Gate:
    """Return the outcome over all ratios.

    `missing`: comparisons without a ratio, each with its reason; `remedy`: what narrows an interval. A slowdown on a
    machine that other processes used fails no gate, nor does an interval that reaches `share` there pass it."""
    figures = tested[0][2:5] if len(tested) == 1 else ()
    slow = [x for x in tested if stops(x.verdict, x.high, share)]
    if failed := [x for x in slow if not x.doubt]:
        return _gate(share, "failed", _listed([x.text for x in failed], len(tested)), *figures)
    unsure = [x for x in tested if x.doubt and x.high >= 1 + share]
    if unsure or missing or not tested:
        reasons = [f"{x.text}, but {x.doubt}" for x in unsure] + list(missing) or ["nothing was compared"]
        return _gate(share, "no verdict", _listed(reasons, len(tested) + len(missing)), *figures)
    most = max(tested, key=lambda x: x.high)
    among = f"; the largest of {len(tested)} upper ends" if len(tested) > 1 else ""
    more = f"; a slowdown of {_percent(share)} is not excluded: {remedy}" if most.high >= 1 + share else ""
    return _gate(share, "passed", f"{most.text}{among}{more}", *figures)


def _gate(share: float, outcome: Outcome, text: str, *figures: float) -> Gate:
    return Gate(share, outcome, f"Gate {_percent(share)}: {outcome}: {text}.", *figures)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _listed(texts: Sequence[str], count: int) -> str:
    rest = f"; and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return "; ".join(texts[:NAMED]) + rest + (f" ({len(texts)} of {count} comparisons)" if count > 1 else "")


def of_variants(run: Run, share: float, baseline: str, contender: str) -> Gate:
    """Return the outcome over a run's comparisons of two variants; several stand jointly by Holm's correction."""
    pairs, missing = [], []
    for at, pair in _compared(run, baseline, contender):
        if pair is None or pair[0].ratio is None or pair[0].high is None:
            missing.append(f"{at}: {_reason(run, at, (baseline, contender), pair)}")
        else:
            pairs.append(pair)
    stands = multiple_testing.kept([x for x, _, _ in pairs]) if len(pairs) > 1 else [True] * len(pairs)
    tested = [_tested(*pair, stand) for pair, stand in zip(pairs, stands, strict=True)]
    return gate(share, tested, missing, "a longer --budget, or --replicate 5")


Judged: TypeAlias = "tuple[Comparison, Result, Result]"


def _compared(run: Run, baseline: str, contender: str) -> Iterator[tuple[str, Judged | None]]:
    """Yield each contest with both variants, and each of their comparisons, None if they are not compared."""
    for contest in run.contests:
        variants = {result.variant for result in contest.measured}
        if variants >= {baseline, contender}:
            pairs = [x for x in contest.compared if (x[1].variant, x[2].variant) == (contender, baseline)]
            yield from ((contest.contest, x) for x in pairs)
            if not pairs:
                yield contest.contest, None


def _reason(run: Run, contest: str, variants: Sequence[str], pair: Judged | None) -> str:
    """Return why two variants of a contest have no ratio."""
    results = [x for x in run.measured if x.contest == contest and x.variant in variants]
    without = [f"{x.variant} {x.status}: {x.reason}" for x in results if x.reason]
    reason = pair[0].reason if pair else None
    return next(iter(without), reason or "too few rounds for an interval, a longer --budget")


def _tested(comparison: Comparison, contender: Result, baseline: Result, stands: bool) -> Tested:
    at, first, second = table.contrast(contender, baseline)
    ratio = units.ratio(comparison.ratio, comparison.low, comparison.high)
    lost = max(contender.lost or 0.0, baseline.lost or 0.0)
    return Tested(
        f"{first} takes {ratio} times what {second} takes, {at}",
        comparison.verdict if stands or comparison.verdict != "slower" else "unresolved",
        comparison.ratio or 0.0,
        comparison.low or 0.0,
        comparison.high or 0.0,
        f"other processes took time in {lost:.0%} of the rounds: repeat on a quiet machine" * (lost > busy.BUSY),
    )


def code(run: Run) -> int:
    """Return the exit code of a run on kernels: of its last gate, 0 without any."""
    outcomes: list[Outcome] = [note.data["outcome"] for note in run.notes if note.topic == TOPIC]
    return CODES[outcomes[-1]] if outcomes else 0


def note(outcome: Gate) -> Note:
    """Return the note of a gate for a run file."""
    return Note(TOPIC, {"share": outcome.share, "outcome": outcome.outcome, "sentences": [outcome.sentence]})
