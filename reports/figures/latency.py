"""What a load takes over the memory that a chain of loads goes through, and where each cache is full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.figures import _axes, _caches, _groups, _style, _sweep
from reports.record import Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIELD = "working_set"
HEIGHT = 3.8  # inches


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each kind of contest in which loads were timed in several sizes."""
    pictures = []
    for group in _groups.groups(run):
        timed = [x for x in group.measured if x.op == _caches.LOADS and x.seconds]
        if len({x.problem[FIELD] for x in timed}) > 1:
            pictures.append((group.slug, _picture(run, group, timed)))
    return pictures


def _picture(run: Run, group: _groups.Group, timed: Sequence[Result]) -> Figure:
    sheet = _style.Sheet(group.question, [_groups.size(group), _style.where(run)])
    cases = [_groups.facts(x) for x in timed]
    keys = [key for key in _groups.varying(cases) if key != FIELD] or ["variant"]
    lines: dict[str, list[tuple[_groups.Bytes, int]]] = {}
    for i, case in enumerate(cases):
        lines.setdefault(_groups.case_label(case, keys), []).append((case[FIELD], i))
    facet = _sweep.Facet("", tuple(_sweep.Line(label, tuple(sorted(points))) for label, points in lines.items()))
    named = {line.key: (line.key, timed[line.points[0][1]].variant) for line in facet.lines}
    drawn, full = _sweep.drawn(named, _style.looks(run)), _caches.sizes(run, timed, FIELD)
    sheet.entries += [*((look.handle(), look.label) for look in drawn.values()), *_style.doubts(timed)]
    sheet.entries += _caches.entry(full)
    figure = sheet.figure(HEIGHT)
    axes = figure.subplots()
    _frame(axes, timed)
    _sweep.along(axes, FIELD, facet, apart=False)
    _caches.mark(axes, full)
    for line in facet.lines:
        points = [(x, timed[i]) for x, i in line.points]
        drawn[line.key].plot(axes, [(x, _seconds(one)) for x, one in points])
        for x, one in points:
            _axes.Point(_seconds(one), _ends(one), drawn[line.key].look, one.status != "ok").draw(axes, True, x)
    return figure


def _seconds(x: Result) -> float:
    assert x.seconds is not None
    return x.seconds.median


def _ends(x: Result) -> tuple[float, float]:
    assert x.seconds is not None
    return x.seconds.low or x.seconds.median, x.seconds.high or x.seconds.median


def _frame(axes: Axes, timed: Sequence[Result]) -> None:
    values = [end for x in timed for end in _ends(x)]
    _axes.graduate(axes, True, (min(values) / 1.3, max(values) * 1.3), steep=True, unit=1e-9)
    _axes.quiet(axes)
    axes.set_ylabel("ns of a load", fontsize=_style.TEXT)
