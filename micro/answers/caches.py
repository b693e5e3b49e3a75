"""Answers of micro/memory.py about bandwidth, latency and cold caches, in sentences."""

from __future__ import annotations

from micro.answers.memory import NAMES
from micro.answers.page_costs import knee, timed
from micro.findings.select import Band, interval, pairs
from reports import units
from reports.record import Run

COLD_SIZE = 256 << 10  # bytes of each vector of which the band is
COLD = Band("Cold over warm, vectors of 256 KiB, flushed", 1.8, usual="2.3 to 8")


def bandwidth_answer(run: Run) -> list[str]:
    """List bytes per second by working set for read, copy and triad, counted as in STREAM."""
    rates: dict[str, list[tuple[int, float]]] = {}
    on_cpu = True
    for contest in run.contests:
        for case, result in timed(contest) if contest.contest.startswith("bandwidth/") else ():
            on_cpu = on_cpu and case.setting.device == "cpu"
            if result.bytes_per_second:
                where = int(contest.contest.split(":")[1])
                rates.setdefault(case.problem.kind, []).append((where, result.bytes_per_second))
    sentences = []
    for kind, row in rates.items():
        figures = (f"{units.binary(size)} {units.scaled(rate, 'B/s')}" for size, rate in sorted(row))
        sentences.append(f"{kind}: {', '.join(figures)}.")
    if rates and not on_cpu:
        sentences.append("On a GPU each is a launch or two, whose microseconds are most of what fits into its caches.")
    return sentences


def latency_answer(run: Run, caches: tuple[int, ...]) -> list[str]:
    """List load latency by working set and page, and the last-level cache that can really be used.

    `caches`: sizes that the system reports, in bytes, smallest first."""
    curves: dict[int, dict[int, float]] = {}
    on_cpu = True  # page sizes are shown for a processor only: a GPU offers no choice
    for contest in run.contests:
        for case, result in timed(contest) if contest.contest.startswith("latency/") else ():
            assert result.seconds is not None
            on_cpu = case.setting.device == "cpu"
            curves.setdefault(case.problem.page, {})[case.problem.working_set] = result.seconds.median
    sentences = []
    for page, curve in sorted(curves.items()):
        shown = ", ".join(f"{units.binary(size)} {1e9 * t:.3g}" for size, t in sorted(curve.items()))
        pages = f", pages of {NAMES[page]}" * on_cpu
        sentences.append(f"A load that waits for the one before{pages}, in ns: {shown}.")
    if curves and len(caches) > 1:
        page = max(curves)
        sentences.append(_usable(curves[page], f"; pages of {NAMES[page]}" * on_cpu, caches))
    return sentences


def _usable(curve: dict[int, float], pages: str, caches: tuple[int, ...]) -> str:
    report = f"the system reports {units.binary(caches[-1])}"
    bend = knee(curve, caches[-2])
    if bend is None:
        return f"No knee is seen between the second-level cache and main memory{pages}; {report}."
    return (
        f"Usable last-level cache: about {units.binary(bend.at)} ({units.binary(bend.low)} still, "
        f"{units.binary(bend.high)} no more{pages}; from {units.seconds(bend.plateau)} in the "
        f"caches to {units.seconds(bend.memory)} in main memory, it passes {units.seconds(bend.middle)}); {report}."
    )


def cold_answer(run: Run) -> list[str]:
    """Report what operands out of cache cost, flushed and swept."""
    sentences = []
    launches = {x.name: x.launches for x in run.results}
    for _, comparison, _, case in pairs(run, "cold/"):
        second = case.problem
        assert comparison.ratio is not None
        if launches[comparison.contender] != 1:
            sentences.append(f"{comparison.contest}: no figure, only the first launch of each visit was cold.")
        elif second.state == "flushed" and second.vector == COLD_SIZE:
            sentences.append(COLD.of(comparison))
        else:
            how = "flushed" if second.state == "flushed" else "256 MiB read in between"
            sentences.append(
                f"Cold over warm, vectors of {units.binary(second.vector)}, {how}: {interval(comparison)}."
            )
    return sentences
