"""How much faster with more threads: a line a kernel, beside what so many threads could do at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.figures import _axes, _style
from reports.record import Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREFIX = "threads/"  # contests of one kernel on several numbers of threads
COLUMNS, HEIGHT = 3, 2.0  # pictures beside each other; inches of one
ALIKE = 1.05  # ratios that are the same to the eye


def draw(run: Run) -> list[tuple[str, Figure]]:
    """One picture, where a run has such contests with a time on two numbers of threads."""
    contests = [x for x in run.contests if x.contest.startswith(PREFIX) and len(_timed(x)) > 1]
    if not contests:
        return []
    sheet = _style.Sheet("How much faster with more threads?", [_style.where(run)])
    sheet.entries += [
        (_style.handle(color=_style.INK, marker="o", linestyle="-"), "kernel, with the 95 % interval of its ratio"),
        (_style.handle(color="#D55E00", marker="_", markersize=11), "its ceiling on so many threads, over that of one"),
        (_style.handle(color=_style.SOFT, linestyle=":"), "n threads, n times as fast"),
    ]
    sheet.notes.append("Ceilings were measured with so many threads in the same rounds, not multiplied.")
    lines = -(-len(contests) // COLUMNS)
    figure = sheet.figure(HEIGHT * lines)
    grid = figure.subplots(lines, COLUMNS, squeeze=False)
    for axes, contest in zip(grid.flat, contests, strict=False):
        _panel(axes, contest)
    for axes in list(grid.flat)[len(contests) :]:
        axes.set_visible(False)
    return [("", figure)]


def _timed(contest: Contest) -> dict[int, Result]:
    return {x.threads: x for x in contest.results if x.role == "measured" and x.seconds}


def _panel(axes: Axes, contest: Contest) -> None:
    timed = _timed(contest)
    counts, first = sorted(timed), timed[min(timed)]
    ends = {
        next(x.threads for x in contest.results if x.name == one.contender): one
        for one in contest.comparisons
        if one.baseline == first.name and one.ratio is not None
    }
    shown = [many for many in counts if many == first.threads or many in ends]
    gains = [1.0 if many == first.threads else 1 / (ends[many].ratio or 1.0) for many in shown]
    axes.plot(counts, [many / first.threads for many in counts], linestyle=":", color=_style.SOFT)
    axes.plot(shown, gains, marker="o", color=_style.INK, markersize=4)
    for many, one in ends.items():
        if one.low and one.high:
            axes.vlines([many], 1 / one.high, 1 / one.low, color=_style.INK, linewidth=1.5)
    limits = [(many, gain) for many in counts if (gain := _ceiling(contest, first, timed[many])) is not None]
    at, most = [many for many, _ in limits], [gain for _, gain in limits]
    axes.plot(at, most, linestyle="none", marker="_", markersize=11, color="#D55E00")
    _axes.quiet(axes)
    _axes.ticks(axes.xaxis, counts, list(map(str, counts)))
    axes.set_xlim(min(counts) - 0.3, max(counts) + 0.3)
    axes.set_ylim(0, max([*gains, counts[-1] / first.threads, *most]) * ALIKE)
    title = f"{contest.question.partition(':')[0]}, {first.variant}"
    axes.set_title(_style.shown(_style.clipped(title, 34)), fontsize=_style.SMALL, color=_style.INK)


def _ceiling(contest: Contest, first: Result, many: Result) -> float | None:
    """How many times as fast its own ceiling is on so many threads."""
    rates = {
        x.ceiling: x.flops_per_second if x.op == "fma" else x.bytes_per_second
        for x in contest.results
        if x.role == "ceiling"
    }
    below, above = rates.get(first.ceiling), rates.get(many.ceiling)
    return above / below if above and below else None
