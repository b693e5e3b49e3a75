"""Comparison of two runs: the differences between their environments, then their times."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from reports import again, canaries, flat, next_run, stats
from reports.record import Comparison, Contest, Environment, Note, Result, Run


def environments(first: Environment, second: Environment) -> tuple[str, ...]:
    """Return `packages.numpy: 2.4.6 → 2.5.0` for every fact in which two environments differ."""
    facts = dict(_flat(first.facts)), dict(_flat(second.facts))
    names = dict.fromkeys([*facts[0], *facts[1]])
    return tuple(
        f"{name}: {_word(facts[0].get(name))} → {_word(facts[1].get(name))}"
        for name in names
        if facts[0].get(name) != facts[1].get(name)
    )


def _flat(facts: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, list(value) if isinstance(value, tuple) else value


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


PROCESSES = 5  # of each run, for a verdict between runs
MARGIN = 0.01
APART = "measured separately: python -m micro.ab measures both together"


def runs(first: Run, second: Run, margin: float = MARGIN) -> Run:
    """Return both runs as one, with a contest for each case they share, first against second.

    The environments come first. A pair has a verdict only if each result has at least five processes and the relevant
    canaries agree within 2 %; its interval then includes the spread between processes."""
    pairs = list(_shared(first, second))
    refusals = [_refusal(a, b) for a, b in pairs]
    contests = tuple(_contest(a, b, margin, len(pairs), why) for (a, b), why in zip(pairs, refusals, strict=True))
    changed = environments(first.environment, second.environment)
    answer = [f"a: {first.environment.command} ({first.environment.started})"]
    answer += [f"b: {second.environment.command} ({second.environment.started})"]
    answer.append("Differences between them: " + ("; ".join(changed) if changed else "none recorded") + ".")
    inside, foreseen = next_run.expected(first.comparisons, second.comparisons)
    answer += [f"Ratios of b inside a's range for the next run: {inside} of {foreseen}."] if foreseen else []
    missing = len(first.measured) + len(second.measured) - 2 * len(pairs)
    answer += [f"{missing} cases are in only one of the runs."] if missing else []
    answer += again.sentences(first, second, refusals, PROCESSES)
    damaged = tuple(dict.fromkeys((*first.damaged, *second.damaged)))
    return Run(second.environment, contests, (Note("answer", {"sentences": answer}),), damaged=damaged)


def _shared(first: Run, second: Run) -> Iterator[tuple[Result, Result]]:
    """Yield pairs of results: the same case of the same contest, else the same case if unique in each run."""
    rest = {(result.contest, result.name): result for result in second.measured}
    alone = []
    for result in first.measured:
        if other := rest.pop((result.contest, result.name), None):
            yield result, other
        else:
            alone.append(result)
    names = Counter(result.name for result in rest.values())
    for result in alone:
        if names[result.name] == 1 and [x.name for x in alone].count(result.name) == 1:
            yield result, next(x for x in rest.values() if x.name == result.name)


def _contest(first: Result, second: Result, margin: float, family: int, refusal: again.Refusal | None) -> Contest:
    name = f"compare/{first.contest}/{first.name}"
    both = tuple(
        replace(result, name=f"{result.name}/run:{letter}", contest=name)
        for letter, result in (("a", first), ("b", second))
    )
    comparison = Comparison.unjudged(
        name, "run", both[0].name, both[1].name, margin, margin, scope="of the runs themselves"
    )
    if first.seconds is None or second.seconds is None:
        without = next(result for result in (first, second) if result.seconds is None)
        why = without.status + (f": {without.reason}" if without.reason else "")
        comparison = replace(comparison, reason=why)
    elif refusal:
        ratio = second.seconds.median / first.seconds.median
        comparison = replace(comparison, ratio=ratio, reason=f"{APART}; {refusal.reason}")
    else:
        judgment = stats.between(_by_process(first), _by_process(second), margin, family)
        comparison = replace(comparison.judged(judgment), scope="between runs")
    return Contest(name, "is run b slower than run a?", "run", both, (comparison,))


def _refusal(first: Result, second: Result) -> again.Refusal | None:
    """Return why results of two runs have no verdict; None if they have one, or if a time is missing."""
    if first.seconds is None or second.seconds is None:
        return None
    counts = len(_by_process(first)) or 1, len(_by_process(second)) or 1
    if min(counts) < PROCESSES:
        measured = [len(set(result.processes)) for result in (first, second)]
        kind: again.Kind = "processes" if min(measured) < PROCESSES else "rejected"
        reason = f"a verdict requires {PROCESSES} processes of each, these have {counts[0]} and {counts[1]}"
        return again.Refusal(kind, reason, counts)
    taken = first.canary or {}, second.canary or {}
    common = [name for name in taken[0] if name in taken[1]]
    if not common:
        return again.Refusal("canary", "no common canary, so the hosts' speeds cannot be compared")
    relevant = canaries.relevant(canaries.relevant(common, first), second)
    shares = {name: statistics.median(taken[1][name]) / statistics.median(taken[0][name]) - 1 for name in relevant}
    worst = max(shares, key=lambda name: abs(shares[name]))
    if abs(shares[worst]) > canaries.LIMIT:
        reason = f"the hosts' speeds differ by {shares[worst]:+.1%} ({worst})"
        return again.Refusal("host", reason, host=(worst, shares[worst]))
    return None


def _by_process(result: Result) -> list[float]:
    """Return for each process the logarithm of the median of its accepted samples."""
    groups: dict[int, list[float]] = {}
    for i in flat.accepted(result) if result.processes else ():
        groups.setdefault(result.processes[i], []).append(result.samples[i])
    return [math.log(statistics.median(samples)) for samples in groups.values()]
