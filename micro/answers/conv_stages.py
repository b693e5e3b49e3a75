"""What a finished run of micro/conv.py says of parts of a call: the share of each stage, what plans cost and save."""

from __future__ import annotations

import math
from typing import Any

from micro.answers.conv import place, where
from micro.answers.sums import accepted
from micro.answers.update_parts import summed
from micro.findings.select import Pair, grouped, interval
from micro.planning.contest import parse
from reports import record, units
from reports.record import Comparison, Run

PRODUCTS = "the products"
WORDS = {"x": "image", "w": "filter", "y": "result"}


def stages_answer(run: Run) -> list[str]:
    """A sentence a contest: the stages' shares of the call, the largest first, and what is left of it."""
    return [_shares(shares) for shares in grouped(run, "stages/")]


def _shares(shares: list[Pair]) -> str:
    whole = shares[0].baseline
    shares.sort(key=lambda pair: -(pair.comparison.ratio or 0.0))
    parts = [(_stage(pair.contender), _percent(pair.comparison)) for pair in shares]
    verb = "take" if parts[0][0] == PRODUCTS else "takes"
    each = ", ".join([f"{parts[0][0]} {verb} {parts[0][1]}", *(f"{name} {share}" for name, share in parts[1:])])
    call = f"{whole.problem.direction} by {whole.variant}, {place(whole.problem)}"
    return f"Of {call}: {each}; {_residual(shares[0].contest)}."


def _stage(case: Any) -> str:
    """`the filter's transform`, `the products`, `the inverse transform`."""
    kind, _, letter = case.variant.rpartition(":")[2].partition("-")
    if kind == "transform":
        return f"the {WORDS[letter]}'s transform"
    return PRODUCTS if kind == "products" else "the inverse transform"


def _percent(one: Comparison) -> str:
    """`41 % [39, 43]`."""
    ends = ["–" if x is None else f"{100 * x:.3g}" for x in (one.low, one.high)]
    return f"{100 * (one.ratio or 0.0):.3g} % [{', '.join(ends)}]"


def _residual(contest: record.Contest) -> str:
    """How far the call is from the sum of its stages, paired in rounds."""
    timed = [(parse(x.name), x) for x in contest.results if x.role == "measured" and x.seconds]
    parts = {case.variant: accepted(x) for case, x in timed if case.variant.startswith("stage:")}
    (measured,) = (accepted(x) for case, x in timed if case.variant not in parts)
    if len(parts) < len(contest.comparisons):
        return "not all stages have a time"
    if not len(measured):
        return "all rounds were rejected"
    total = summed("call", measured, parts)
    head = f"together {units.seconds(total.total)} for a call of {units.seconds(total.measured)}"
    if total.ratio is None:
        return f"{head}, too few rounds to compare"
    rest, low, high = (100 * (1 - 1 / x) for x in (total.ratio.center, total.ratio.low, total.ratio.high))
    return f"{head}, which leaves {rest:.2g} % [{low:.2g}, {high:.2g}] of it"


def plans_answer(run: Run) -> list[str]:
    """What each search takes and saves, and after how many calls; what plans for arrays anywhere cost."""
    return [_planned(found) for found in grouped(run, "plans/")]


def _planned(found: list[Pair]) -> str:
    contest, calls, baseline, contender = found[0]
    less, more = baseline.variant, contender.variant
    timed: dict[str, tuple[Any, float]] = {}
    for x in contest.results:
        if x.role == "measured" and x.seconds:
            case = parse(x.name)
            timed[case.variant] = case.problem, x.seconds.median
    problem, _ = timed[less]
    head = f"{where(problem)}: a call of {more} takes {interval(calls)} times one of {less}"
    if f"plan:{more}" not in timed:
        return f"{head}."
    searches = {name: timed[f"plan:{name}"][1] for name in (less, more)}
    again = timed.get(f"plan:{more}:again")
    kept = f", {units.seconds(again[1])} again with its wisdom" if again else ""
    took = f"its plans {units.seconds(searches[more])}{kept}, those of {less} {units.seconds(searches[less])}"
    return f"{head}; {took}; {_pays(calls, searches[more] - searches[less], timed[less][1] - timed[more][1])}."


def _pays(calls: Comparison, dearer: float, saved: float) -> str:
    """After how many calls a search is made up for."""
    if calls.verdict != "faster" or saved <= 0:
        return "no call is certainly faster by it"
    many = max(1, math.ceil(dearer / saved))
    return f"it pays after {units.counted(many, 'call')}"
