"""Answers about optimizers: bytes beside time, implementations, one call against many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernels.ops.optimizer.problem import RULES
from micro.findings.phrase import Phrase
from micro.findings.select import interval
from micro.planning.contest import parse
from reports import record, units
from reports.record import Comparison, Run

BARE = ("copy", "sgd")  # rules that are nothing but traffic: the best rate of theirs is what memory gives


def _contests(run: Run, kind: str) -> Iterator[tuple[record.Contest, list[tuple[Comparison, Any, Any]]]]:
    """Yield contests of a kind with their comparisons that have a ratio, and the cases of each."""
    for contest in run.contests:
        if contest.contest.startswith(kind):
            rows = [(x, parse(x.baseline), parse(x.contender)) for x in contest.comparisons if x.ratio is not None]
            if rows:
                yield contest, rows


def _size(problem: Any) -> str:
    many = f"{problem.tensors} × " if problem.tensors > 1 else ""
    return f"{many}{problem.size} parameters"


def rules_answer(run: Run) -> list[str]:
    """Report the traffic of the rules, their implementations, and momentum of unit gain."""
    return [*_traffic(run), *WAYS(run), *GAIN(run)]


def _traffic(run: Run) -> Iterator[str]:
    """Compare each rule's time and bytes with SGD's, and its rate with that of pure traffic.

    All rates are from the same rounds."""
    for contest, rows in _contests(run, "traffic/"):
        rates: dict[str, float] = {
            x.problem["rule"]: x.bytes_per_second
            for x in contest.results
            if x.role == "measured" and x.bytes_per_second
        }
        bare: float = max((rates[rule] for rule in BARE if rule in rates), default=0.0)
        base = rows[0][1].problem
        arrays = f"its arrays, {base.rule}'s of {units.binary(base.footprint)}"
        yield f"{_size(base)}, {rows[0][1].variant}, each rule in one pass over {arrays}:"
        yield f"  {base.rule}, {RULES[base.rule].bytes} B a parameter: {_rate(base.rule, rates, bare)}."
        for comparison, _, second in rows:
            rule, size = second.problem.rule, RULES[second.problem.rule].bytes
            grown = f"{size} B a parameter, {size / RULES[base.rule].bytes:.2f} times {base.rule}'s"
            yield f"  {rule}, {grown}: {interval(comparison)} times its time; {_rate(rule, rates, bare)}."


def _rate(rule: str, rates: Mapping[str, float], bare: float) -> str:
    rate = rates.get(rule, 0.0)
    share = f", {rate / bare:.0%} of the faster of {' and '.join(BARE)}" if bare else ""
    return f"{units.scaled(rate, 'B/s')}{share}"


GAIN = Phrase(
    "gain/",
    "Momentum of unit gain at lr {q.lr:g} makes the steps of the plain one at lr {p.lr:g}, and takes {ratio} times as "
    "long ({verdict}).",
    by="",
)
WAYS = Phrase(  # every implementation against our pass, rule by rule
    "ways/", "{p.rule} of {p:size}, times {a.variant}: {items}.", "{b.variant} {ratio}", words={"size": _size}
)


def together_answer(run: Run) -> list[str]:
    """Compare all variants with the suite's single pass, and report the cost per separate tensor."""
    sentences = []
    for contest, rows in _contests(run, "tensors/"):
        base = rows[0][1]
        against_base = [(c, b) for c, a, b in rows if a == base]
        times = {parse(x.name).variant: x.seconds.median for x in contest.results if x.role == "measured" and x.seconds}
        reference = f"{base.variant} ({units.seconds(times.get(base.variant))})"
        head = f"{base.problem.rule} of {_size(base.problem)}, times {reference}"
        sentences.append(f"{head}: {', '.join(f'{b.variant} {interval(c)}' for c, b in against_base)}.")
        for comparison, first, second in rows:
            if first.variant == base.variant and second.variant != f"{base.variant}-each":
                continue
            both = times.get(first.variant), times.get(second.variant)
            each = ""
            if both[0] is not None and both[1] is not None:
                each = f", {units.seconds((both[1] - both[0]) / base.problem.tensors)} more a tensor"
            sentences.append(f"  {second.variant} over {first.variant}: {interval(comparison)}{each}.")
    return sentences
