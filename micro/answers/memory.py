"""Answers of micro/memory.py about page faults and latency."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kernels.devices import kind_of
from kernels.ops.pages.accounting import Account, Profile
from micro.findings.ratios import expectations
from micro.findings.select import timed
from micro.planning.contest import LONG
from reports import record, stats, units
from reports.record import Run

AGREE = 0.1  # relative difference up to which two costs of a fault agree
NAMES = {4096: "4 KiB", 2 << 20: "2 MiB"}
UNREADY = "its launches are too short or too long to prepare memory for each separately"
WORTH_A_KNEE = 1.5  # least ratio of main-memory to cache latency for a knee
PLATEAU = 4  # times the second level: end of the plateau on both machines examined


@dataclass(frozen=True)
class Cost:
    """Seconds of one fault and their 95 % interval; None: unbounded."""

    seconds: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Faults:
    """Costs of a page fault and of mapping a page, by page size in bytes."""

    fault: dict[int, Cost]  # first touch of a page minus a touch of memory that is mapped already
    unmap: dict[int, Cost]  # mapping a page and giving it back


def _cost(cost: Cost) -> str:
    """Format a cost with its ends in the unit of the center: `1.52 µs [1.49, 1.55]`."""
    middle = units.seconds(cost.seconds)
    if cost.low is None or cost.high is None or not cost.seconds:
        return f"{middle} [unbounded]"
    scale = float(middle.partition(" ")[0]) / cost.seconds
    return f"{middle} [{scale * cost.low:.3g}, {scale * cost.high:.3g}]"


def faults_answer(run: Run, account: Account | None = None, profiled: Profile | str = "") -> list[str]:
    """Return sentences on the cost of a page fault, cross-checked by getrusage and perf."""
    costs = faults(run)
    if costs is None:
        return []
    sentences = []
    for page, cost in costs.fault.items():
        back = costs.unmap.get(page)
        more = f"; mapping and unmapping it {_cost(back)}" if back else ""
        sentences.append(f"The first touch of a page of {NAMES[page]} costs {_cost(cost)}{more}.")
    if small := costs.fault.get(4096):
        if account:
            sentences += _agreement(small, account, profiled)
        sentences.append(expectations()["touch"].say(1e6 * small.seconds, _cost(small)))
    return sentences


def _agreement(cost: Cost, account: Account, profiled: Profile | str) -> Iterator[str]:
    """Yield a comparison of a fault's cost with system time per fault and perf samples per fault."""
    checks = [f"system time per fault (getrusage) {_beside(account.each, cost.seconds, 'that cost')}"]
    if isinstance(profiled, Profile):
        seen = _beside(profiled.each, profiled.system, "the sampled process's system time")
        checks.append(f"perf samples within faults {seen}, which perf slows down")
    yield f"Cross-checks: {'; '.join(checks)}."
    if isinstance(profiled, str) and profiled:
        yield f"No cross-check by a profiler: {profiled}."


def _beside(seconds: float, other: float, whose: str) -> str:
    """Format the comparison of two times: `1.49 µs, 1.04 times it (agrees within 10 %)`."""
    times = seconds / other
    agrees = "agrees" if abs(times - 1) <= AGREE else "does NOT agree"
    return f"{units.seconds(seconds)}, {times:.2f} times {whose} ({agrees} within {100 * AGREE:g} %)"


def latency_answer(run: Run) -> list[str]:
    """Return sentences on load latency by working set and page size, and on usable last-level cache."""
    curves: dict[int, dict[int, float]] = {}
    with_pages = True  # named for a processor only: a GPU offers no choice
    for _, case, result in timed(run, "latency/"):
        assert result.seconds is not None
        with_pages = not kind_of(case.setting.device).undivided
        curves.setdefault(case.problem.page, {})[case.problem.working_set] = result.seconds.median
    sentences = []
    for page, curve in sorted(curves.items()):
        shown = ", ".join(f"{units.binary(size)} {1e9 * t:.3g}" for size, t in sorted(curve.items()))
        pages = f", pages of {NAMES[page]}" * with_pages
        sentences.append(f"Latency of a dependent load{pages}, in ns: {shown}.")
    caches = run.environment.facts.get("device", {}).get("caches", ())  # smallest first
    if curves and len(caches) > 1:
        sentences.append(_usable(curves[max(curves)], caches))
    return sentences


def _usable(curve: dict[int, float], caches: tuple[int, ...]) -> str:
    report = f"the system reports {units.binary(caches[-1])}"
    bend = knee(curve, caches[-2])
    if bend is None:
        return f"No knee between the second-level cache and main memory was measured; {report}."
    return (
        f"Usable last-level cache: about {units.binary(bend.at)} ({units.binary(bend.low)} fits, "
        f"{units.binary(bend.high)} does not; from {units.seconds(bend.plateau)} in the "
        f"caches to {units.seconds(bend.memory)} in main memory); {report}."
    )


def unprepared(run: Run) -> dict[str, str]:
    """Return the contests whose launches were not prepared one by one as needed, with the reason."""
    reasons = {}
    for contest in run.contests:
        rows = [x for x in contest.measured if x.seconds]
        contenders = {x.contender for x in contest.comparisons}
        match contest.contest.partition("/")[0]:
            case "cold" if any(x.launches != 1 for x in rows if x.name in contenders):
                reasons[contest.contest] = "only the first launch of each sample was cold"
            case "idle" if not _paused(contest, rows):
                reasons[contest.contest] = UNREADY
            case "fault" if not all(prepared_per_launch(x) for x in rows):
                reasons[contest.contest] = UNREADY
    return reasons


def _paused(contest: record.Contest, rows: Sequence[record.Result]) -> bool:
    """Return whether each sample is one launch after a pause, judged by the contest's duration."""
    pauses = sum(x.problem["pause"] * len(x.samples) for x in rows)
    return contest.seconds.get("measuring", 0.0) >= pauses and all(x.launches == 1 for x in rows)


def prepared_per_launch(result: record.Result) -> bool:
    """Return whether each launch had fresh memory: if a sample is a single launch of at most LONG."""
    return result.launches == 1 and result.seconds is not None and result.seconds.median <= LONG


def difference(first: record.Result, second: record.Result) -> Cost | None:
    """Return second minus first in seconds per launch, paired by rounds; None for too few rounds."""
    import numpy as np

    lost = set(first.rejected) | set(second.rejected)
    pairs = zip(first.rounds, first.samples, second.samples, strict=True)
    kept = [b - a for at, a, b in pairs if at not in lost]
    scale = float(np.max(np.abs(kept), initial=0.0)) or 1.0
    # Batches of rounds share the error probability, as in comparisons. The estimator exponentiates.
    interval = stats.interval(np.array(kept) / scale, (1 - stats.SHOWN) / stats.SHARE)
    if interval is None:
        return None
    return Cost(*(scale * math.log(x) for x in (interval.center, interval.low, interval.high)))


def each(cost: Cost, count: int) -> Cost:
    """Divide a cost by a count."""
    ends = [None if x is None else x / count for x in (cost.low, cost.high)]
    return Cost(cost.seconds / count, *ends)


def faults(run: Run) -> Faults | None:
    """Return the costs per page from the `fault/` contests; None if none has a valid cost."""
    fault: dict[int, Cost] = {}
    unmap: dict[int, Cost] = {}
    for _, group in itertools.groupby(timed(run, "fault/"), key=lambda row: row[0].contest):
        rows = {case.problem.memory: (case.problem, result) for _, case, result in group}
        if not {"touched", "fresh"} <= rows.keys() or not all(
            prepared_per_launch(result) for _, result in rows.values()
        ):
            continue
        problem, fresh = rows["fresh"]
        if (cost := difference(rows["touched"][1], fresh)) is not None:
            fault[problem.page] = each(cost, problem.pages)
        if "mapped" in rows and (cost := difference(fresh, rows["mapped"][1])) is not None:
            unmap[problem.page] = each(cost, problem.pages)
    if not fault:
        return None
    return Faults(fault, unmap)


@dataclass(frozen=True)
class Knee:
    """The step of a latency curve from the caches to main memory."""

    low: int  # bytes of the last working set in cache
    high: int  # the next working set that was measured
    at: float  # bytes where latency is the mean of `plateau` and `memory`, all on logarithmic scales
    plateau: float  # seconds of a load in the caches
    memory: float  # seconds of a load in main memory


def knee(curve: Mapping[int, float], second_level: int) -> Knee | None:
    """Return the working set at which load latency rises from the caches' plateau to main memory.

    The threshold is the geometric mean of both. None for a curve without a step, or without a point on either side.
    Plateau: median up to PLATEAU times the second level. Main memory: median of the largest third of the sizes above.
    The cut leaves the fewest points on the wrong side of the threshold, so that an outlier does not move it."""
    above = sorted(size for size in curve if size > second_level)
    flat = [size for size in above if size <= PLATEAU * second_level]
    far = [size for size in above if size > PLATEAU * second_level]
    if not flat or not far:
        return None
    plateau = median(curve[size] for size in flat)
    memory = median(curve[size] for size in far[-max(1, len(far) // 3) :])
    if memory < WORTH_A_KNEE * plateau:
        return None
    middle = math.sqrt(plateau * memory)
    cut = min(range(1, len(above)), key=lambda i: _astray([curve[size] > middle for size in above], i))
    low, high = above[cut - 1], above[cut]
    return Knee(low, high, _crossing(low, high, curve[low], curve[high], middle), plateau, memory)


def _astray(over: Sequence[bool], cut: int) -> int:
    """Count points above the threshold before the cut, or below the threshold after it."""
    return sum(over[:cut]) + sum(not x for x in over[cut:])


def _crossing(low: int, high: int, before: float, behind: float, middle: float) -> float:
    share = 0.5  # of the logarithmic distance, if either point is an outlier
    if before < middle < behind:
        share = math.log(middle / before) / math.log(behind / before)
    return low * math.exp(share * math.log(high / low))
