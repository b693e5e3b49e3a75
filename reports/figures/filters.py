"""Time of a convolution over the size of its filter: a line for each kernel."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.figures import _axes, _groups, _style, _sweep
from reports.record import Result, Run, Seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WITH_IT = ("s", "pad", "pad_top", "pad_left", "pad_bottom", "pad_right")  # what a square filter's size tells too
NEAR = 0.4  # of the room that lines beside each other may take
ROOM = 1.25  # times the longest and the shortest, on a logarithmic axis


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each pass of each kind of contest that measured three sizes of filters or more."""
    pictures = []
    looks = _style.looks(run)
    for group in _groups.groups(run):
        timed = [x for x in group.measured if x.op == "conv" and x.seconds]
        for direction in dict.fromkeys(x.problem["direction"] for x in timed):
            some, rest = _fewest([x for x in timed if x.problem["direction"] == direction])
            sweep = _sweep.sweep(_facts(some))
            if sweep and sweep.field == "r":
                about = [direction, _groups.size(_groups.Group("", group.contests)), _style.where(run)]
                sheet = _style.Sheet("How long does a convolution take by the size of its filter?", about)
                if rest:
                    sheet.notes.append(f"Left out are the slowest kernels: {', '.join(rest)}.")
                pictures.append((f"{group.slug}-{direction}", _lines(sheet, some, sweep, looks)))
    return pictures


def _fewest(every: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """As many kernels as there may be lines: the first, against which the others are compared, and those that take the
    fewest times the fastest of each problem; and the names of the rest."""
    fastest: dict[str, float] = {}
    for x in every:
        took, at = _seconds(x).median, repr(x.problem)
        fastest[at] = min(took, fastest.get(at, took))
    times: dict[str, list[float]] = {}
    for x in every:
        times.setdefault(x.variant, []).append(math.log(_seconds(x).median / fastest[repr(x.problem)]))
    others = sorted(list(times)[1:], key=lambda name: statistics.fmean(times[name]))
    kept = {*list(times)[:1], *others[: _sweep.MOST_LINES - 1]}
    return [x for x in every if x.variant in kept], [name for name in times if name not in kept]


def _facts(some: Sequence[Result]) -> list[_groups.Facts]:
    """Of each case, but for what has one value wherever the rows of the filter have one."""
    every = [_groups.facts(x) for x in some]
    rows = len({one["r"] for one in every})
    tied = {key for key in WITH_IT if len({(one["r"], one.get(key)) for one in every}) == rows}
    return [{key: value for key, value in one.items() if key not in tied} for one in every]


def _lines(sheet: _style.Sheet, some: Sequence[Result], sweep: _sweep.Sweep, looks: dict[str, _style.Look]) -> Figure:
    named = {}
    for key, i in sweep.lines.items():
        case = _groups.facts(some[i])
        named[key] = _groups.case_label(case, sweep.keys) or case["variant"], case["variant"]
    drawn = _sweep.drawn(named, looks)
    sheet.entries += [(x.handle(), x.label) for x in drawn.values()]
    sheet.entries += _style.doubts(some)
    figure = sheet.figure(_sweep.height(sweep, 4.2))
    for axes, facet in zip(_sweep.panels(figure, sweep), sweep.facets, strict=True):
        _graduate(axes, some)
        place = _sweep.along(axes, sweep.field, facet, apart=True)
        axes.set_xlabel("rows and columns of the filter", fontsize=_style.TEXT)
        for n, line in enumerate(facet.lines):
            points = [(x + NEAR * (place(x, n) - x), some[i]) for x, i in line.points]
            drawn[line.key].plot(axes, [(x, _seconds(result).median) for x, result in points])
            for x, result in points:
                _point(result, drawn[line.key].look).draw(axes, True, x)
        if axes.yaxis.get_tick_params()["labelleft"]:
            axes.set_ylabel("time of a call, ms", fontsize=_style.TEXT)
    return figure


def _graduate(axes: Axes, some: Sequence[Result]) -> None:
    ends = [end for x in some for end in _ends(_seconds(x))]
    _axes.graduate(axes, True, (min(ends) / ROOM, max(ends) * ROOM), True, 1e-3)
    axes.grid(axis="y", color=_style.GUIDE, linewidth=0.8)
    _axes.quiet(axes)


def _point(result: Result, look: _style.Look) -> _axes.Point:
    seconds = _seconds(result)
    return _axes.Point(seconds.median, _ends(seconds), look, result.status != "ok")


def _ends(seconds: Seconds) -> tuple[float, float]:
    """Of its interval; where it has none, itself."""
    return seconds.low or seconds.median, seconds.high or seconds.median


def _seconds(result: Result) -> Seconds:
    assert result.seconds is not None
    return result.seconds
