"""Verdicts on pairs with a known ratio: false alarms, detection, coverage of intervals, seconds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

from micro.command.figure import Promise, rate
from micro.contests import selftest
from reports import flat, record, stats

Needs: TypeAlias = Mapping[str, Mapping[str, float]]  # log ratio times root seconds, by kind and kernel
SUFFIX = " (quiet)", " (a spinner on every core)"


@dataclass(frozen=True)
class Pair:
    """A measured pair: verdict, measuring time, whether the interval contains 1, whether contended."""

    kind: str
    kernel: str
    verdict: str
    seconds: float
    holds: bool | None
    contended: bool


def finished(asked: selftest.Known, done: record.Contest) -> Pair:
    """Return the measured pair from a contest's record."""
    contended = any(result.status == "contended" for result in done.measured)
    (comparison,) = done.comparisons
    holds = None if comparison.low is None or comparison.high is None else comparison.low <= 1 <= comparison.high
    return Pair(asked.kind, asked.kernel, comparison.verdict, done.seconds["measuring"], holds, contended)


def noisy(pilot: Sequence[record.Contest]) -> str | None:
    """Return why the machine is too busy to judge figures of a quiet one; None if it is quiet.

    Criteria: canaries, and the time in which the worker, which never waits while it measures, did not run."""
    results = [result for done in pilot for result in done.measured]
    if slow := [text for result in results for text in result.warnings if "slow host" in text]:
        return slow[0]
    clock, ran = (sum(done.system.get(name, 0.0) for done in pilot) for name in ("clock", "own"))
    lost = 1 - ran / clock if clock else 0.0
    return f"{lost:.0%} of the pilot's time was lost to other processes" if lost > selftest.NOISY else None


def needs(asked: Sequence[selftest.Known], pilot: Sequence[record.Contest]) -> Needs:
    """Return the distance from the margin that is detected in a second, by kind and kernel.

    Estimated from pilots of the same kind alone, since the noise of long samples differs from that of short ones."""
    squares: dict[str, dict[str, list[float]]] = {}
    for known, done in zip(asked, pilot, strict=True):
        if len(x := _logs(done)) >= stats.FEWEST:
            ratio = stats.estimate(x)
            near = ratio.half((1 - stats.JUDGED) / stats.SHARE) + selftest.NINE * max(error for _, error in ratio.forms)
            squares.setdefault(known.kind, {}).setdefault(known.kernel, []).append(near**2 * done.seconds["measuring"])
    return {kind: {k: math.sqrt(fmean(x)) for k, x in kernels.items()} for kind, kernels in squares.items()}


def _logs(done: record.Contest) -> Any:
    """Return log ratios of the accepted rounds, second case over first; an empty array without times."""
    import numpy as np

    cases = [result for result in done.measured if result.samples]
    return np.array(flat.log_ratios(*cases)) if len(cases) == 2 else np.empty(0)


def vague(needs: Needs, seconds: Mapping[str, float]) -> dict[str, list[str]]:
    """Return by kind of pair the kernels too noisy for its known ratio to be detected.

    `seconds`: measuring time of a pair, by kind."""
    return {
        kind: [k for k, need in needs.get(kind, {}).items() if need > selftest.DISTANCE[kind] * math.sqrt(time)]
        for kind, time in seconds.items()
    }


def left_out(vague: Mapping[str, Sequence[str]], needs: Needs, seconds: Mapping[str, float]) -> Promise:
    """Return a figure that lists the kernels too noisy for their pairs to be judged."""
    names = {selftest.IDENTICAL: selftest.SAME, selftest.FIVE: selftest.SLOWER_5, selftest.TWO: selftest.SLOWER_2}
    sentences = []
    for kind, kernels in vague.items():
        room = f"{100 * selftest.DISTANCE[kind]:g} %"
        after = [f"{kernel} {100 * needs[kind][kernel] / math.sqrt(seconds[kind]):.2g} %" for kernel in kernels]
        if kernels:
            sentences.append(f"{names[kind]}: {', '.join(after)} of the {room} to the margin are noise")
    return Promise("kernels too noisy here to be judged", "; ".join(sentences) or "none", "", True)


def figures(
    pairs: Sequence[Pair], spinning: bool, full: bool, unjudged: str | None, vague: Collection[str] = ()
) -> Iterator[Promise]:
    """Yield the figures of pairs measured on a quiet machine, or with `spinning` beside busy processes.

    Contended pairs count only with `spinning`. `vague`: kernels too noisy for the verdict `same`; their pairs are
    left out of the figures of `same` and of seconds."""
    counted = pairs if spinning else [pair for pair in pairs if not pair.contended]
    if not spinning:
        yield Promise("pairs that were quiet", f"{len(counted)} of {len(pairs)}", "", True)
    identical = [pair for pair in counted if pair.kind == selftest.IDENTICAL]
    hits = {
        selftest.NOT_DIFFERENT: [pair.verdict in ("same", "unresolved") for pair in identical],
        selftest.SAME: [pair.verdict == "same" for pair in identical if pair.kernel not in vague],
        selftest.SLOWER_5: [pair.verdict == "slower" for pair in counted if pair.kind == selftest.FIVE],
        selftest.SLOWER_2: [pair.verdict == "slower" for pair in counted if pair.kind == selftest.TWO],
        selftest.HOLDS: [bool(pair.holds) for pair in identical],
    }
    for name, least in selftest.RATES[spinning].items():
        yield rate(name + SUFFIX[spinning], sum(hits[name]), len(hits[name]), least, unjudged)
    if spinning:  # beside spinners a small difference may be missed if the result is contended
        missed = [pair for pair in pairs if pair.kind == selftest.TWO and pair.verdict != "slower"]
        marked = sum(pair.contended for pair in missed)
        name = "+2 % missed but marked contended" + SUFFIX[1]
        yield Promise(name, f"{marked} of {len(missed)}", "all", marked == len(missed))
    else:
        yield from _kernels(identical, full, unjudged)
    yield _seconds([pair for pair in pairs if pair.kernel not in vague], spinning, unjudged)


def _kernels(identical: Sequence[Pair], full: bool, unjudged: str | None) -> Iterator[Promise]:
    """Yield each kernel's share of intervals that contain 1, the worst first; only that has a promise."""
    kernels = [[pair for pair in identical if pair.kernel == kernel] for kernel in {x.kernel for x in identical}]
    ranked = sorted((sum(bool(x.holds) for x in pairs) / len(pairs), pairs[0].kernel, pairs) for pairs in kernels)
    for i, (_, kernel, pairs) in enumerate(ranked):
        name, held = f"intervals that hold 1, {kernel}{', the worst' * (i == 0)}", sum(bool(x.holds) for x in pairs)
        if full and i == 0:
            yield rate(name, held, len(pairs), selftest.KERNEL, unjudged)
        else:
            low, high = stats.wilson(held, len(pairs))
            yield Promise(name, f"{held} of {len(pairs)} [{low:.3f}, {high:.3f}]", "", True)


def _seconds(pairs: Sequence[Pair], spinning: bool, unjudged: str | None) -> Promise:
    took = sorted(pair.seconds for pair in pairs if pair.kind in (selftest.IDENTICAL, selftest.FIVE))
    limits = selftest.PAIR_SECONDS["median"][spinning], selftest.PAIR_SECONDS["worst"][spinning]
    name, promised = "seconds a pair, identical and +5 %" + SUFFIX[spinning], f"{limits[0]:g} and {limits[1]:g}"
    if not took:
        return Promise(name, "", promised, False, unjudged or "no pairs")
    median, worst = took[len(took) // 2], took[-1]
    held = median <= limits[0] and worst <= limits[1] and not unjudged
    return Promise(name, f"median {median:.2f}, worst {worst:.2f}", promised, held, unjudged)
