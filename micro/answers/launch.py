"""Answers of micro/launch.py: what a call costs by binding, alone and in chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from micro.findings.phrase import Phrase
from micro.findings.select import chosen
from micro.planning.contest import parse
from reports import record, units
from reports.record import Run

PROMISED = 0.02  # share of a call's time that may be the harness's
PYTHON = ("ctypes", "numpy", "torch", "torch-compile", "cupy", "torch-cuda")
WHAT = {"gemm": "an 8×8 SGEMM (1024 FLOP)", "empty": "a function that does nothing"}
HARNESS = {"nothing": "from C", "nothing-python": "from Python", "nothing-cuda": "from Python, on a GPU"}


def ladder_answer(run: Run) -> list[str]:
    """Report each kernel's ladder, the cost of bindings, the suite's own share, and the chains."""
    ladders = [contest for contest in run.contests if contest.contest.startswith("ladder/")]
    sentences = [sentence for contest in ladders for sentence in _ladder(contest)]
    sentences += _worth(run, ladders)
    shortest = min((case.problem.chain for x in ladders for case, _ in _times(x).values()), default=1)
    for contest in run.contests:
        if contest.contest.startswith("floor/"):
            sentences += _floor(contest, shortest)
    return [*sentences, *_chains(run)]


gaps_answer = Phrase(  # from the end of a kernel to that of the next one
    "gap/",
    "{p.chain} times {p.kernel:what}, one behind another: {seconds_a:seconds} each by {a.variant}, {items}.",
    "by {b.variant} {seconds_b:seconds}, {ratio} times as long",
    words={"what": WHAT.__getitem__},
)


def _times(contest: record.Contest) -> dict[str, tuple[Any, float]]:
    """Return case and seconds per call of each timed result, the fastest first."""
    timed = [(x.name, x.seconds.median) for x in contest.results if x.role == "measured" and x.seconds is not None]
    return {name: (parse(name), seconds) for name, seconds in sorted(timed, key=lambda x: x[1])}


def _ladder(contest: record.Contest) -> Iterator[str]:
    """Format a ladder: `One call of … costs 27 ns with c, 111 ns with openblas (4.1 times), …`."""
    times = _times(contest)
    if not times:
        return
    ratios = {x.contender: x.ratio for x in contest.comparisons if x.ratio is not None}
    costs = []
    for name, (case, seconds) in times.items():
        more = f" ({ratios[name]:.3g} times)" if name in ratios else ""
        costs.append(f"{units.seconds(seconds)} with {case.variant}{more}")
    problem = next(iter(times.values()))[0].problem
    row = f", {problem.chain} in a row," if problem.chain > 1 else ""
    yield f"One call of {WHAT[problem.kernel]}{row} costs {', '.join(costs)}."


def _worth(run: Run, ladders: list[record.Contest]) -> Iterator[str]:
    """Report the size of the product that runs at peak in the time of a call from Python."""
    peaks = [x.flops_per_second for x in run.results if x.role == "ceiling" and x.op == "fma" and x.flops_per_second]
    python = [
        (seconds, case.variant)
        for contest in ladders
        for case, seconds in _times(contest).values()
        if case.problem.kernel == "gemm" and case.variant in PYTHON
    ]
    if not peaks or not python:
        return
    sizes = [f"{name} of {round((seconds * max(peaks) / 2) ** (1 / 3))}³" for seconds, name in python]
    yield (
        f"At this core's peak ({units.scaled(max(peaks), 'FLOP/s')}) such a call lasts as long as a product: "
        f"{', '.join(sizes)}."
    )


def _floor(contest: record.Contest, chain: int) -> Iterator[str]:
    """Report the harness's share of a chain of calls, for the cheapest rung of each kernel."""
    times = _times(contest)
    comparisons = [x for x in contest.comparisons if x.ratio and x.low and x.high and x.contender in times]
    if not comparisons:
        return
    harness, seconds = times[comparisons[0].baseline]
    shares = []
    for kernel in WHAT:
        rows = [x for x in comparisons if times[x.contender][0].problem.kernel == kernel]
        if not rows:
            continue
        best = min(rows, key=lambda x: times[x.contender][1])
        assert best.ratio and best.low and best.high
        share, low, high = (1 / (x * chain) for x in (best.ratio, best.high, best.low))
        held = "resolved" if high < PROMISED else "NOT resolved, at the floor"
        name = f"{times[best.contender][0].variant}, {kernel}"
        shares.append(f"{100 * share:.2g} % [{100 * low:.2g}, {100 * high:.2g}] ({name}: {held}{chosen(len(rows))})")
    yield (
        f"Our own launch takes {units.seconds(seconds)} {HARNESS[harness.variant]}; of {chain} calls of the cheapest "
        f"that is {', '.join(shares)}; promised under {100 * PROMISED:g} %."
    )


def _chains(run: Run) -> Iterator[str]:
    """Compare a call that has its own launch with a call in the longest chain."""
    costs = []
    for contest in run.contests:
        times = _times(contest)
        if not contest.contest.startswith("chain/") or len(times) < 2:
            continue
        by_length = {case.problem.chain: seconds for case, seconds in times.values()}
        alone, most = min(by_length), max(by_length)
        case = next(iter(times.values()))[0]
        fixed = (by_length[alone] - by_length[most]) / (1 / alone - 1 / most)
        costs.append(
            f"{case.variant} {units.seconds(by_length[alone])} ({units.seconds(by_length[most])} in a chain of "
            f"{most}: a launch adds {units.seconds(fixed)})"
        )
    if costs:
        yield f"A call that has its launch for itself costs {'; '.join(costs)}."
