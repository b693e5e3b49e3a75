"""Forecasts of the time that contests take, corrected while measuring, and of a sufficient budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from micro.planning.contest import LONG, WARM, Budget, Contest
from reports.stats import FEWEST, LOOKS
from reports.units import counted

if TYPE_CHECKING:
    from kernels.devices.base import Limits
    from micro.planning.request import Plan
    from reports import record

REFERENCE = 100e9  # FLOP/s of the processor that computes the reference of a check
LEAST_VISIT = 1e-3  # seconds of a sample on a device that the compiled loop does not serve
BESIDE = 4  # samples of ceilings and canaries per round of the first batch, on such a device
TRIFLE = 1.0  # seconds: a contest whose fewest rounds take less is measured even without budget
TWICE, NOTABLE = 2.0, 5.0  # slow preparing is reported from this factor, and these seconds, above the forecast
SAFE = 1.25  # factor from the time of the rounds to the advised budget


def first_look(contest: Contest, limits: Mapping[str, Limits]) -> float:
    """Estimate the seconds of a contest's first batch of rounds, with the warm-up of calls up to LONG.

    On devices that the compiled loop does not serve, ceilings and canaries are included."""
    total, least = 0.0, 0.05
    for case in contest.cases:
        if case.skip or case.setting.device not in limits:
            continue
        device_limits = limits[case.setting.device]
        call = case.problem.flops / device_limits.flops + case.problem.bytes / device_limits.bandwidth
        total += call * (1 if call > LONG else 1 + WARM)
        if device_limits.visit:
            total += device_limits.visit + max(LEAST_VISIT - call, 0.0)
            least = max(least, LOOKS[0] * BESIDE * (device_limits.visit + LEAST_VISIT))
    return LOOKS[0] * total + least


def preparing(contests: Sequence[Contest]) -> float:
    """Estimate the seconds to prepare and check all cases."""
    cases = {case for contest in contests for case in contest.cases if not case.skip}
    return sum(4 * case.problem.flops / REFERENCE + 8 * case.problem.footprint / 1e9 + 0.1 for case in cases)


def announced(contests: Sequence[Contest], budget: Budget) -> str:
    """Format the announcement of a plan: number of contests and cases, and an upper limit of their time."""
    cases = {case for contest in contests for case in contest.cases if not case.skip}
    checks = preparing(contests)
    return (
        f"{counted(len(contests), 'contest')} (cases compared, timed in turns) of {counted(len(cases), 'case')} "
        "(a kernel at one size): "
        f"up to {budget.seconds:.0f} s to measure, about {checks:.0f} s to prepare and check: "
        f"{budget.seconds + checks:.0f} s in all"
    )


def corrected(first: record.Contest, contests: Sequence[Contest], left: float) -> str | None:
    """Format a new forecast if preparing the first contest took far longer than forecast, else None."""
    took, foreseen = first.seconds.get("setup", 0.0), preparing(contests[:1])
    if len(contests) < 2 or took < TWICE * foreseen or took < foreseen + NOTABLE:
        return None
    rest = (preparing(contests) - foreseen) * took / foreseen
    return (
        f"preparation takes {took / foreseen:.0f} times the forecast, {took:.0f} s for the first contest: about "
        f"{rest:.0f} s for the other {len(contests) - 1}, plus up to {left:.0f} s to measure: {rest + left:.0f} s"
    )


def looked(done: record.Contest) -> float:
    """Return the seconds of a first batch of rounds at contest `done`'s pace; 0 if `done` has no rounds."""
    rounds = max((len(result.samples) for result in done.results), default=0)
    return LOOKS[0] * done.seconds.get("measuring", 0.0) / rounds if rounds else 0.0


def out_of_time(need: float, left: float) -> bool:
    """Return whether `left` seconds are too few for the fewest rounds that give an interval.

    `need`: seconds of the contest's first batch."""
    return need * FEWEST / LOOKS[0] > max(left, TRIFLE)


def remedy(plan: Plan, run: record.Run, limits: Mapping[str, Limits]) -> list[str]:
    """Format how many contests were not measured or had too few rounds, and a sufficient budget."""
    done = {contest.contest: contest for contest in run.contests}
    measured = [(contest, done[contest.name]) for contest in plan.contests if contest.name in done]
    few = [x for _, x in measured if _short(x)]
    missing = [contest for contest in plan.contests if contest.name not in done]
    if plan.until != "time" or not (few or missing):
        return []
    need = sum(max(x.seconds.get("measuring", 0.0), looked(x) if _short(x) else 0.0) for _, x in measured)
    need += pace([(first_look(contest, limits), x) for contest, x in measured]) * sum(
        first_look(contest, limits) for contest in missing
    )
    budget = _round(max(SAFE * need * (plan.replicates if few else 1) / (1 - plan.kept), plan.budget.seconds))
    count = len(plan.contests)
    shortfalls = [f"{len(few)} of {count} contests had too few rounds for a ratio"] if few else []
    shortfalls += [f"{len(missing)} of {count} contests were not reached in time"] if missing else []
    goes_on = ", or with -o FILE --resume, which measures only what is missing" if missing else ""
    return [f"{'; '.join(shortfalls)}: rerun with --budget {budget}s{goes_on}."]


def pace(measured: Sequence[tuple[float, record.Contest]]) -> float:
    """Return the factor by which rounds take longer than forecast, the median over contests.

    `measured`: (forecast seconds of the first batch, contest). A median, since a forecast may fail for a kernel."""
    times = [took / foreseen for foreseen, finished in measured if (took := looked(finished)) and foreseen]
    return median(times) if times else 1.0


def _short(done: record.Contest) -> bool:
    """Return whether a comparison has no ratio because of too few rounds."""
    return any(comparison.verdict == "unresolved" and comparison.ratio is None for comparison in done.comparisons)


def _round(seconds: float) -> int:
    """Round up to two significant figures."""
    step = int(10 ** max(0, math.floor(math.log10(max(seconds, 1.0))) - 1))
    return step * math.ceil(seconds / step)
