"""Answers about algorithm search: regret of the default, cost of a search, calls that amortize it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from micro.findings.select import interval
from micro.planning.contest import parse
from reports import units
from reports.record import Comparison, Contest, Run
from reports.regret import CHANGING, REGRET, SEARCH, common, fastest, timed

CALLS = 2  # of each algorithm in a search: a warm-up and a timed call


def where(problem: Any) -> str:
    """Format a pass of a layer: `dgrad, 3×3, 256→384 channels, 13×13, batch 16`."""
    stride = f", stride {problem.stride}" if problem.stride > 1 else ""
    filters = f"{problem.r}×{problem.s}, {problem.c}→{problem.k} channels"
    return f"{problem.direction}, {filters}, {problem.h}×{problem.w}, batch {problem.n}{stride}"


@dataclass(frozen=True)
class Search:
    """Results of a search over the variants of one layer and pass."""

    problem: Any
    default: str
    best: str
    times: dict[str, float]  # seconds of a call, by variant
    prepared: float = 0.0  # seconds to plan, pack and allocate all but the default
    again: Comparison | None = None  # the default over the best, in fresh rounds; None if nothing was faster

    @property
    def cost(self) -> float:
        return self.prepared + CALLS * sum(self.times.values())

    @property
    def chosen(self) -> float:
        """Ratio of the default to the best, in the rounds that chose the best."""
        return self.times[self.default] / self.times[self.best]

    @property
    def regret(self) -> float | None:
        """Ratio of the default to the best, in fresh rounds; None if not measured."""
        return 1.0 if self.best == self.default else self.again.ratio if self.again else None

    @property
    def certain(self) -> bool:
        return self.again is not None and self.again.verdict == "slower"

    @property
    def where(self) -> str:
        return where(self.problem)

    def pays(self, regret: float | None) -> float:
        """Return the number of calls that amortizes the search; inf if `regret` is None or not above 1."""
        gain = self.times[self.default] * (1 - 1 / regret) if regret else 0.0
        return self.cost / gain if gain > 0 else float("inf")


def answer(run: Run) -> list[str]:
    """Return the sentences of `--find`: a summary of all layers, each layer, each changing shape."""
    layers, changing = _searches(run, SEARCH), _searches(run, CHANGING)
    return [*_together(layers), *map(_layer, layers), *map(_layer, changing)]


def _searches(run: Run, word: str) -> list[Search]:
    """Return the searches of contests `word/…` in which the default and another variant were timed."""
    again = {common(x.contest): x.comparisons[0] for x in run.contests if x.contest.startswith(f"{REGRET}/")}
    searched = [x for x in run.contests if x.contest.partition("/")[0] in (SEARCH, CHANGING)]
    setups = _setups(searched)
    searches = []
    for contest in searched:
        pair = fastest(contest)
        if pair and contest.contest.startswith(f"{word}/"):
            default, best = pair
            times = {x.variant: seconds for seconds, x in timed(contest)}
            prepared = sum(setups[contest.contest, name] for name in times if name != default.variant)
            search = Search(parse(default.name).problem, default.variant, best.variant, times, prepared)
            searches.append(replace(search, again=again.get(common(contest.contest))))
    return searches


def _setups(contests: Iterable[Contest]) -> dict[tuple[str, str], float]:
    """Return the seconds to prepare each variant, by (contest, variant).

    A variant's first preparation for a pass also loads the library and compiles its source. It is replaced by the next
    preparation if that is shorter."""
    setups: dict[tuple[str, str], float] = {}
    by_kind: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for contest in contests:
        for _, x in timed(contest):
            key = contest.contest, x.variant
            setups[key] = x.setup_seconds or 0.0
            by_kind.setdefault((x.variant, str(x.problem.get("direction"))), []).append(key)
    for first, *later in by_kind.values():
        setups[first] = min([setups[first], *(setups[key] for key in later[:1])])
    return setups


def _layer(search: Search) -> str:
    """Format a layer's regret of its default, and after how many calls a search pays."""
    tried = len(search.times)
    if search.best == search.default:
        return (
            f"{search.where}: none of {tried} was faster than {search.default}; the search took "
            f"{units.seconds(search.cost)}."
        )
    if search.again is None or search.again.ratio is None:
        return (
            f"{search.where}: {search.default} takes {search.chosen:.2f} times as long as {search.best}, the fastest "
            f"of {tried}, in the rounds that chose it; not measured in fresh rounds."
        )
    return (
        f"{search.where}: {search.default} takes {interval(search.again)} times as long as {search.best}, "
        f"the fastest of {tried} ({search.chosen:.2f} in the rounds that chose it); {_pays(search)}."
    )


def _pays(search: Search) -> str:
    assert search.again is not None
    took = (
        f"a search takes {units.seconds(search.cost)}, {units.seconds(search.prepared)} of it for preparation, the "
        f"rest for {CALLS} calls of each"
    )
    if not search.certain:
        return f"{took}; whether it ever pays off is not certain"
    soonest, latest = search.pays(search.again.high), search.pays(search.again.low)
    return f"{took}, and pays off after {search.pays(search.again.ratio):.0f} calls [{soonest:.0f}, {latest:.0f}]"


def _together(searches: list[Search]) -> Iterator[str]:
    """Yield a sentence on the median and the largest regret, and on how many are significant."""
    regrets = [(x.regret, x) for x in searches if x.regret]
    if len(regrets) < 2:
        return
    largest, worst = max(regrets, key=lambda pair: pair[0])
    middle = statistics.median(regret for regret, _ in regrets)
    yield (
        f"Regret of {worst.default} (its time over the fastest's) in {len(regrets)} layers and passes: median "
        f"{middle:.2f}, largest {largest:.2f} ({worst.where}); certainly above 1 in "
        f"{sum(x.certain for x in searches)}. The fastest is chosen and measured in different rounds, because "
        "the rounds that choose it favor it."
    )
