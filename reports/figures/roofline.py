"""Rooflines of convolutions by executed work, which differs between algorithms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.figures import _axes, _groups, _style
from reports.figures._groups import place
from reports.record import Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ABREAST, HIGH = 3, 2.9  # panels beside each other, inches of each
SAME = 1e-3  # relative difference of work that counts as equal
ROOM = 1.6  # margin factor beyond the largest and the smallest value, on logarithmic axes
TITLE = "How near to the ceilings does each algorithm come, by executed work?"


@dataclass(frozen=True)
class Panel:
    """A contest: its timed results, and its ceilings in FLOP a second and bytes a second."""

    title: str
    timed: tuple[Result, ...]
    peak: float
    reads: float


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return a picture for each kind of contest and pass whose algorithms did unequal work."""
    pictures = []
    looks = _style.looks(run)
    for group in _groups.groups(run):
        by_pass: dict[str, list[Contest]] = {}
        for contest in filter(_unequal, group.contests):
            by_pass.setdefault(_timed(contest)[0].problem["direction"], []).append(contest)
        for direction, contests in by_pass.items():
            panels = _panels(contests)
            if panels:
                sheet = _style.Sheet(TITLE, [direction, _groups.size(group), _style.where(run)])
                pictures.append((f"{group.slug}-{direction}", _figure(sheet, panels, looks)))
    return pictures


def _timed(contest: Contest) -> list[Result]:
    return [x for x in contest.measured if x.op == "conv" and x.seconds and x.work]


def _unequal(contest: Contest) -> bool:
    """Return whether the contest's algorithms executed unequal work."""
    work = [x.work["flops"] for x in _timed(contest) if x.work]
    return contest.differs == "variant" and bool(work) and max(work) > min(work) * (1 + SAME)


def _panels(contests: Sequence[Contest]) -> list[Panel]:
    """Return a panel for each contest that measured both ceilings."""
    panels = []
    for contest in contests:
        timed, bounds = _timed(contest), [x for x in contest.results if x.role == "ceiling"]
        peaks = [x for x in bounds if not x.by_reads]
        reads = [x.bytes_per_second for x in bounds if x.by_reads and x.bytes_per_second]
        peak = max((_of_all(x, timed[0].threads) for x in peaks), default=0.0)
        if peak and reads:
            panels.append(Panel(place(timed[0].problem), tuple(timed), peak, statistics.median(reads)))
    return panels


def _of_all(bound: Result, threads: int) -> float:
    """Return a ceiling in FLOP/s for `threads` threads, scaled if one thread measured it."""
    alone = not (bound.ceiling or "").endswith(" threads")
    return (bound.flops_per_second or 0.0) * (threads if alone else 1)


def _figure(sheet: _style.Sheet, panels: Sequence[Panel], looks: dict[str, _style.Look]) -> Figure:
    names = dict.fromkeys(x.variant for panel in panels for x in panel.timed)
    sheet.entries += [(_style.handle(color=looks[name].color, marker=looks[name].marker), name) for name in names]
    sheet.entries += _style.doubts(x for panel in panels for x in panel.timed)
    sheet.notes.append(
        "Executed work per byte that an algorithm must move (spectra included), and per second. Line: ceilings of "
        "multiply-adds and of reads of as much memory, in the same rounds."
    )
    abreast = 2 if len(panels) == 4 else min(ABREAST, len(panels))
    rows = math.ceil(len(panels) / abreast)
    figure = sheet.figure(HIGH * rows)
    grid = figure.subplots(rows, abreast, sharex=True, sharey=True, squeeze=False)
    every = [axes for row in grid for axes in row]
    limits = _limits(panels)
    for i, (axes, panel) in enumerate(zip(every, panels, strict=False)):
        _roof(axes, panel, limits)
        for x in panel.timed:
            _mark(axes, x, looks[x.variant])
        if i % abreast == 0:
            axes.set_ylabel("GFLOP/s, executed", fontsize=_style.TEXT)
        if i >= len(panels) - abreast:
            axes.set_xlabel("FLOP a byte", fontsize=_style.TEXT)
            axes.xaxis.set_tick_params(labelbottom=True)
    for axes in every[len(panels) :]:
        axes.set_visible(False)
    return figure


def _limits(panels: Sequence[Panel]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the limits of both axes, common to all panels, that contain the ridge point of each roof."""
    points = [_place(x) for panel in panels for x in panel.timed]
    bends = [panel.peak / panel.reads for panel in panels]
    across = [*(x for x, _ in points), *bends]
    up = [*(y for _, y in points), *(panel.peak for panel in panels)]
    return (min(across) / ROOM, max(across) * ROOM), (min(up) / ROOM, max(up) * ROOM)


def _place(result: Result) -> tuple[float, float]:
    """Return the arithmetic intensity in FLOP/byte and the rate in FLOP/s."""
    assert result.work is not None and result.seconds is not None
    return result.work["flops"] / result.work["bytes"], result.work["flops"] / result.seconds.median


def _roof(axes: Axes, panel: Panel, limits: tuple[tuple[float, float], tuple[float, float]]) -> None:
    across, up = limits
    _axes.graduate(axes, True, up, True, 1e9)
    _axes.graduate(axes, False, across, True, 1.0)
    powers = [10.0**i for i in range(math.ceil(math.log10(across[0])), math.floor(math.log10(across[1])) + 1)]
    _axes.ticks(axes.xaxis, powers, [f"{x:g}" for x in powers])
    _axes.quiet(axes)
    bend = panel.peak / panel.reads
    places = [across[0], max(across[0], bend), across[1]]
    axes.plot(places, [min(panel.peak, panel.reads * x) for x in places], color=_style.INK, linewidth=0.9, zorder=1)
    axes.set_title(_style.shown(panel.title), fontsize=_style.SMALL, color=_style.INK, loc="left")
    _axes.note(axes, units.scaled(panel.peak, "FLOP/s"), (across[1], panel.peak), (0, 3), ha="right")
    _axes.note(axes, f"reads {units.scaled(panel.reads, 'B/s')}", (places[1], panel.peak), (4, -5), va="top")


def _mark(axes: Axes, result: Result, look: _style.Look) -> None:
    assert result.work is not None and result.seconds is not None
    x, y = _place(result)
    ends = [result.work["flops"] / end if end else y for end in (result.seconds.high, result.seconds.low)]
    _axes.Point(y, (ends[0], ends[1]), look, result.status != "ok").draw(axes, True, x)
