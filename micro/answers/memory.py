"""Answers of micro/memory.py about page faults and latency."""

from __future__ import annotations

from collections.abc import Iterator

from kernels.faults import Cost
from kernels.ops.pages.accounting import Account, Profile
from micro.answers.page_costs import faults, knee
from micro.findings.expected import expectations
from micro.findings.select import timed
from reports import units
from reports.record import Run

AGREE = 0.1  # of the cost of a fault
NAMES = {4096: "4 KiB", 2 << 20: "2 MiB"}


def _cost(cost: Cost) -> str:
    """Format a cost with its ends in the unit of the center: `1.52 µs [1.49, 1.55]`."""
    middle = units.seconds(cost.seconds)
    if cost.low is None or cost.high is None or not cost.seconds:
        return f"{middle} [unbounded]"
    scale = float(middle.partition(" ")[0]) / cost.seconds
    return f"{middle} [{scale * cost.low:.3g}, {scale * cost.high:.3g}]"


def faults_answer(run: Run, account: Account | None = None, profiled: Profile | str = "") -> list[str]:
    """Report costs per page, and cross-checks by getrusage and perf."""
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
    """Compare the cost by the clock with system time per fault and perf samples per fault."""
    checks = [f"the system's own time over its faults (getrusage) {_beside(account.each, cost.seconds, 'it')}"]
    if isinstance(profiled, Profile):
        seen = _beside(profiled.each, profiled.system, "the system time of the process it watched")
        checks.append(f"perf's samples within a fault {seen}, which perf slows down")
    yield f"Beside it: {'; '.join(checks)}."
    if isinstance(profiled, str) and profiled:
        yield f"No profiler's share beside it: {profiled}."


def _beside(seconds: float, other: float, whose: str) -> str:
    """Compare two times: `1.49 µs, 1.04 times it (agrees within 10 %)`."""
    times = seconds / other
    agrees = "agrees" if abs(times - 1) <= AGREE else "does NOT agree"
    return f"{units.seconds(seconds)}, {times:.2f} times {whose} ({agrees} within {100 * AGREE:g} %)"


def latency_answer(run: Run) -> list[str]:
    """List load latency by working set and page, and the last-level cache that can really be used."""
    curves: dict[int, dict[int, float]] = {}
    for _, case, result in timed(run, "latency/"):
        assert result.seconds is not None
        curves.setdefault(case.problem.page, {})[case.problem.working_set] = result.seconds.median
    sentences = []
    for page, curve in sorted(curves.items()):
        shown = ", ".join(f"{units.binary(size)} {1e9 * t:.3g}" for size, t in sorted(curve.items()))
        sentences.append(f"A load that waits for the one before, pages of {NAMES[page]}, in ns: {shown}.")
    caches = run.environment.facts.get("device", {}).get("caches", ())  # smallest first
    if curves and len(caches) > 1:
        sentences.append(_usable(curves[max(curves)], caches))
    return sentences


def _usable(curve: dict[int, float], caches: tuple[int, ...]) -> str:
    report = f"the system reports {units.binary(caches[-1])}"
    bend = knee(curve, caches[-2])
    if bend is None:
        return f"No knee is seen between the second-level cache and main memory; {report}."
    return (
        f"Usable last-level cache: about {units.binary(bend.at)} ({units.binary(bend.low)} still, "
        f"{units.binary(bend.high)} no more; from {units.seconds(bend.plateau)} in the "
        f"caches to {units.seconds(bend.memory)} in main memory); {report}."
    )
