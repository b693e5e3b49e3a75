"""The roofline of one program's step: what its products and convolutions reach, by FLOP a byte."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports import step, units
from reports.breakdown import Breakdown, Part
from reports.figures import _axes, _kinds, _style
from reports.figures.step import slug
from reports.record import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST = 0.01  # of the step
LABELS = 8  # points with a name, the largest
LETTERS, POINTS = 44, 8.0  # of a label
BODY, LINE = 4.6, 0.24  # inches of the axes, and from one label to the next
ROOM, NEAR = 1.6, 1.25  # times the largest and the smallest, and the highest, on logarithmic axes
GIGA = 1e9


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each step of the run that has products and a ceiling, named after its script."""
    pictures: dict[str, Figure] = {}
    for found in step.of(run):
        if found.ceilings and points(found):
            pictures[slug(found, pictures)] = _picture(found, run)
    return list(pictures.items())


def points(found: Breakdown) -> list[Part]:
    """Cells whose FLOP and bytes are known, the largest first."""
    least = LEAST * found.step["a"]
    known = [x for x in found.cells if x.unit == "FLOP" and x.work and x.rate and x.bytes and x.a >= least]
    return sorted(known, key=lambda x: -x.a)


def place(cell: Part) -> tuple[float, float]:
    """FLOP a byte, FLOP a second."""
    return (cell.work or 0.0) / (cell.bytes or 1.0), cell.rate or 0.0


def spread(heights: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """The heights, ascending, so far apart between both ends: halfway from all moved upwards to all moved downwards."""
    up = _lifted(heights, apart, low, high)
    down = [-x for x in _lifted([-x for x in reversed(heights)], apart, -high, -low)]
    return [(x + y) / 2 for x, y in zip(up, reversed(down), strict=True)]


def _lifted(heights: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    moved: list[float] = []
    for height in heights:
        moved.append(max([height, low, *(x + apart for x in moved[-1:])]))
    return [min(x, high - apart * left) for x, left in zip(moved, reversed(range(len(moved))), strict=True)]


def untangled(ends: Sequence[tuple[float, float]], heights: Sequence[float]) -> list[float]:
    """Which of the heights at 1 each end has a line to, so that no two lines cross: two that do are longer."""
    chosen = list(heights)

    def length(i: int, height: float) -> float:
        return math.hypot(1 - ends[i][0], height - ends[i][1])

    pairs = list(itertools.combinations(range(len(chosen)), 2))
    while crossed := [
        (i, j)
        for i, j in pairs
        if length(i, chosen[j]) + length(j, chosen[i]) < length(i, chosen[i]) + length(j, chosen[j]) - 1e-9
    ]:
        i, j = crossed[0]
        chosen[i], chosen[j] = chosen[j], chosen[i]
    return chosen


def _picture(found: Breakdown, run: Run) -> Figure:
    cells = points(found)
    best = max(cells, key=lambda x: x.rate or 0.0)
    peak = found.peak(best.dtype)
    title = f"{found.name}: {best.column} reaches {units.scaled(best.rate or 0.0, 'FLOP/s')}"
    if peak and best.rate:
        title += f", {units.percent(100 * best.rate / peak)} of the ceiling"
    device = run.environment.facts.get("device")
    model = device.get("model") if isinstance(device, dict) else None
    about = [str(model or "unknown machine"), units.counted(found.threads, "thread"), run.environment.started[:10]]
    notes = [
        f"A point is a row of at least {units.percent(100 * LEAST)} of the step, the larger the more time it takes; "
        "beside its name its share. FLOP and bytes are nominal, from shapes. The lines: multiply-adds in "
        f"{_roofed(found, cells).dtype or 'float32'}, and "
        "memory past the caches; what is in a cache may be above the latter."
    ]
    notes += [f"Not known here: the ceiling of {x}." for x in _unknown(found, cells)]
    figure = _style.Sheet(title, about, _kinds.key([x.column for x in cells]), notes).figure(BODY)
    _plot(figure.subplots(), found, cells)
    return figure


def _roofed(found: Breakdown, cells: Sequence[Part]) -> Part:
    """Return the cell whose type has the highest ceiling, which is drawn."""
    return max(cells, key=lambda x: found.peak(x.dtype) or 0.0)


def _unknown(found: Breakdown, cells: Sequence[Part]) -> list[str]:
    known = {"multiply-adds": found.peak(_roofed(found, cells).dtype), "memory": found.ceilings.get("bytes")}
    return [name for name, rate in known.items() if not rate]


def _plot(axes: Axes, found: Breakdown, cells: Sequence[Part]) -> None:
    at = [place(x) for x in cells]
    peak, memory = found.peak(_roofed(found, cells).dtype), found.ceilings.get("bytes")
    knee = [peak / memory] if peak and memory else []
    across = [*(x for x, _ in at), *knee]
    up = [*(y for _, y in at), peak or (memory or 0.0) * min(across)]
    left, right = min(across) / ROOM, max(across) * ROOM
    bottom, top = min(up) / ROOM, max(up) * NEAR
    _axes.graduate(axes, False, (left, right), steep=True)
    _axes.graduate(axes, True, (bottom, top), steep=True, unit=GIGA)
    _axes.quiet(axes)
    axes.grid(color=_style.GUIDE, linewidth=0.8)
    _roof(axes, peak, memory, (left, right))
    sizes = [24 + 400 * x.a / found.step["a"] for x in cells]
    colors = [_kinds.color(x.column) for x in cells]
    axes.scatter(
        [x for x, _ in at], [y for _, y in at], s=sizes, c=colors, edgecolors="white", linewidths=0.7, zorder=4
    )
    axes.set_xlabel("FLOP per byte", fontsize=_style.TEXT)
    axes.set_ylabel("GFLOP/s", fontsize=_style.TEXT)
    _labels(axes, found, cells[:LABELS])


def _roof(axes: Axes, peak: float | None, memory: float | None, ends: tuple[float, float]) -> None:
    """The ceilings that are known, up to where they meet, with their names."""
    style: dict[str, Any] = {"color": _style.INK, "linewidth": 1.1, "zorder": 2}
    small: dict[str, Any] = {"textcoords": "offset points", "fontsize": _style.SMALL, "color": _style.INK}
    knee = peak / memory if peak and memory else None
    if peak:
        axes.plot([knee or ends[0], ends[1]], [peak, peak], label="flops", **style)
        axes.annotate(units.scaled(peak, "FLOP/s"), (ends[1], peak), (-2, 3), ha="right", **small)
    if memory:
        end = knee or min(ends[1], axes.get_ylim()[1] / memory)
        axes.plot([ends[0], end], [memory * ends[0], memory * end], label="bytes", **style)
        axes.annotate(f"memory {units.scaled(memory, 'B/s')}", (end, memory * end), (6, -14), **small)


def _labels(axes: Axes, found: Breakdown, cells: Sequence[Part]) -> None:
    """In a column to the right, each with a line to its point."""
    order = sorted(cells, key=lambda x: x.rate or 0.0)
    across, up = axes.get_xlim(), axes.get_ylim()
    ends = [(_fraction(x, across), _fraction(y, up)) for x, y in map(place, order)]
    heights = untangled(ends, spread([y for _, y in ends], LINE / BODY, 0.03, 0.97))
    line: dict[str, Any] = {"arrowstyle": "-", "color": _style.SOFT, "linewidth": 0.6, "shrinkB": 0}
    style: dict[str, Any] = {"fontsize": POINTS, "color": _style.INK, "va": "center", "annotation_clip": False}
    for cell, height in zip(order, heights, strict=True):
        share = units.percent(100 * cell.a / found.step["a"])
        text = f"{_style.shown(_style.clipped(cell.row, LETTERS))}, {share}"
        axes.annotate("", place(cell), (1.02, height), textcoords="axes fraction", arrowprops=line)
        axes.annotate(text, (1.03, height), xycoords="axes fraction", **style)


def _fraction(value: float, ends: tuple[float, float]) -> float:
    """Of a logarithmic axis."""
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])
