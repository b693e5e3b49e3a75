"""Rates by the work that is executed, under the ceilings: where algorithms do unequal work for one answer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import older, units
from reports.figures import _axes, _groups, _style
from reports.record import READS, Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABREAST, HIGH = 3, 2.9  # panels beside each other, inches of each
SAME = 1e-3  # shares of work that are no difference
ROOM = 1.6  # times the largest and the smallest, on logarithmic axes
TITLE = "How near to the ceilings does each algorithm come, by the work that it executes?"


@dataclass(frozen=True)
class Panel:
    """A contest: what was timed, and what no kernel can exceed: FLOP a second, bytes a second."""

    title: str
    timed: tuple[Result, ...]
    peak: float
    reads: float


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each kind of contest, and each pass, in which algorithms do unequal work for one answer."""
    pictures = []
    looks = _style.looks(run)
    for group in _groups.groups(run):
        by_pass: dict[str, list[Contest]] = {}
        for contest in group.contests:
            if _unequal(contest):
                directions = {x.problem.get("direction", "") for x in _timed(contest)}
                by_pass.setdefault(directions.pop() if len(directions) == 1 else "", []).append(contest)
        for direction, contests in by_pass.items():
            panels = _panels(contests)
            if panels:
                sheet = _style.Sheet(TITLE, [direction, _groups.size(group), _style.where(run)])
                suffix = f"{group.slug}-{direction}" if direction else group.slug
                pictures.append((suffix, _figure(sheet, panels, looks)))
    return pictures


def _timed(contest: Contest) -> list[Result]:
    return [x for x in contest.results if x.role == "measured" and x.seconds and x.work and x.work["flops"]]


def _unequal(contest: Contest) -> bool:
    """Whether one answer was found by unequal work."""
    work = [x.work["flops"] for x in _timed(contest) if x.work]
    return contest.differs == "variant" and bool(work) and max(work) > min(work) * (1 + SAME)


def _panels(contests: Sequence[Contest]) -> list[Panel]:
    """Those with both ceilings, named by the fields in which they differ."""
    timed = [(contest, tuple(_timed(contest))) for contest in contests]
    keys = [key for key in _groups.varying(_groups.facts(x) for _, some in timed for x in some) if key != "variant"]
    panels = []
    for contest, some in timed:
        bounds = [x for x in contest.results if x.role == "ceiling"]
        peaks = [x.flops_per_second for x in bounds if not older.ceiling(x).startswith(READS) and x.flops_per_second]
        reads = [x.bytes_per_second for x in bounds if older.ceiling(x).startswith(READS) and x.bytes_per_second]
        if peaks and reads:
            threads = 1 if older.ceiling(bounds[0]).endswith(" threads") else some[0].threads
            title = _groups.case_label(_groups.facts(some[0]), keys)
            panels.append(Panel(title, some, threads * max(peaks), statistics.median(reads)))
    return panels


def _figure(sheet: _style.Sheet, panels: Sequence[Panel], looks: dict[str, _style.Look]) -> Figure:
    names = dict.fromkeys(x.variant for panel in panels for x in panel.timed)
    sheet.entries += [(_style.handle(color=looks[name].color, marker=looks[name].marker), name) for name in names]
    if any(x.status != "ok" for panel in panels for x in panel.timed):
        statuses = ", ".join(sorted({x.status for panel in panels for x in panel.timed} - {"ok"}))
        sheet.entries.append((_style.handle(color=_style.SOFT, marker="o", markerfacecolor="white"), statuses))
    sheet.notes.append(
        "Executed work over the bytes that an algorithm must move, spectra among them, and over its time. Lines: "
        "multiply-adds, and reads of as much memory, in the same rounds."
    )
    rows = math.ceil(len(panels) / ABREAST)
    figure = sheet.figure(HIGH * rows)
    grid = figure.subplots(rows, min(ABREAST, len(panels)), sharex=True, sharey=True, squeeze=False)
    every = [axes for row in grid for axes in row]
    limits = _limits(panels)
    for i, (axes, panel) in enumerate(zip(every, panels, strict=False)):
        _roof(axes, panel, limits)
        for x in panel.timed:
            _mark(axes, x, looks[x.variant])
        if i % ABREAST == 0:
            axes.set_ylabel("GFLOP/s, executed", fontsize=_style.TEXT)
        if i >= len(panels) - ABREAST:
            axes.set_xlabel("FLOP a byte", fontsize=_style.TEXT)
            axes.xaxis.set_tick_params(labelbottom=True)
    for axes in every[len(panels) :]:
        axes.set_visible(False)
    return figure


def _limits(panels: Sequence[Panel]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of both axes, the same in all panels: with the bend of each roof."""
    points = [_place(x) for panel in panels for x in panel.timed]
    bends = [panel.peak / panel.reads for panel in panels]
    across = [*(x for x, _ in points), *bends]
    up = [*(y for _, y in points), *(panel.peak for panel in panels)]
    return (min(across) / ROOM, max(across) * ROOM), (min(up) / ROOM, max(up) * ROOM)


def _place(result: Result) -> tuple[float, float]:
    """FLOP a byte, FLOP a second."""
    assert result.work is not None and result.seconds is not None
    return result.work["flops"] / result.work["bytes"], result.work["flops"] / result.seconds.median


def _roof(axes: Axes, panel: Panel, limits: tuple[tuple[float, float], tuple[float, float]]) -> None:
    across, up = limits
    _axes.graduate(axes, True, up, True, 1e9)
    _axes.graduate(axes, False, across, True, 1.0)
    _axes.quiet(axes)
    bend = panel.peak / panel.reads
    places = [across[0], max(across[0], bend), across[1]]
    axes.plot(places, [min(panel.peak, panel.reads * x) for x in places], color=_style.INK, linewidth=0.9, zorder=1)
    axes.set_title(_style.shown(panel.title), fontsize=_style.SMALL, color=_style.INK, loc="left")
    label = f"{units.scaled(panel.peak, 'FLOP/s')}, reads {units.scaled(panel.reads, 'B/s')}"
    axes.annotate(
        _style.shown(label),
        (across[1], panel.peak),
        (0, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=_style.SMALL,
        color=_style.INK,
    )


def _mark(axes: Axes, result: Result, look: _style.Look) -> None:
    assert result.work is not None and result.seconds is not None
    x, y = _place(result)
    ends = [result.work["flops"] / end if end else y for end in (result.seconds.high, result.seconds.low)]
    _axes.Point(y, (ends[0], ends[1]), look, result.status != "ok").draw(axes, True, x)
