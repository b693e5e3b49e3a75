"""The roofline of one program's step: what its products and convolutions reach, by FLOP a byte."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from reports import step, units
from reports.breakdown import Breakdown, Part
from reports.figures import _style
from reports.figures.step import COLORS, OTHER
from reports.record import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST = 0.01  # of the step
LABELS = 8  # points with a name
BODY = 4.6  # inches
SIDE, UPON = 1.15, 1.25  # times as far at most that points lie which share a label
GIGA = 1e9


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each step of the run that has products and ceilings, named after its script."""
    pictures: dict[str, Figure] = {}
    for found in step.of(run):
        if points(found) and found.ceilings.get("flops"):
            slug = re.sub(r"[^\w+]+", "-", found.name).strip("-").lower()[:60]
            while slug in pictures:
                slug += "-b"
            pictures[slug] = _picture(found, run)
    return list(pictures.items())


def points(found: Breakdown) -> list[Part]:
    """Cells whose FLOP and bytes are known, the largest first."""
    return [x for x in found.cells if x.unit == "FLOP" and x.rate and x.bytes and x.a >= LEAST * found.step["a"]]


def _picture(found: Breakdown, run: Run) -> Figure:
    cells = points(found)
    best = max(cells, key=lambda x: x.rate or 0.0)
    peak = found.ceilings["flops"]
    title = f"{found.name}: products reach at most {(best.rate or 0) / peak:.0%} of this machine's multiply-adds"
    kinds = list(dict.fromkeys(x.column for x in cells))
    entries = [(_style.handle(color=COLORS.get(x, OTHER), marker="o"), x) for x in kinds]
    about = [units.counted(found.threads, "thread"), run.environment.started[:10]]
    notes = [f"A point is a row of at least {LEAST:.0%} of the step; FLOP and bytes are nominal, from shapes."]
    if "bytes" not in found.ceilings:
        notes.append("The ceiling of memory is not known here.")
    figure = _style.Sheet(title, about, entries=entries, notes=notes).figure(BODY)
    _plot(figure.subplots(), found, cells)
    return figure


def _plot(axes: Axes, found: Breakdown, cells: list[Part]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    at = [(x.work or 0.0) / (x.bytes or 1.0) for x in cells]
    rates = [(x.rate or 0.0) / GIGA for x in cells]
    peak, memory = found.ceilings["flops"] / GIGA, found.ceilings.get("bytes", 0.0) / GIGA
    knee = peak / memory if memory else min(at)
    low, high = min([knee, *at]) / 2.5, max([knee, *at]) * 12
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("log")
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    line = sorted({low, knee, high})
    heights = [min(peak, memory * x) if memory else peak for x in line]
    axes.plot(line, heights, color=_style.SOFT, linewidth=1.2)
    axes.text(high, peak, f"{peak:.0f} GFLOP/s ", ha="right", va="bottom", fontsize=_style.SMALL, color=_style.SOFT)
    sizes = [18 + 260 * x.a / found.step["a"] for x in cells]
    axes.scatter(at, rates, s=sizes, c=[COLORS.get(x.column, OTHER) for x in cells], alpha=0.85, linewidths=0)
    lowest = min(*rates, *heights) / 1.6
    axes.set_xlim(low, high)
    axes.set_ylim(lowest, peak * 1.6)
    _labels(axes, groups(cells, at, rates), math.log10(peak * 1.6 / lowest))
    axes.set_xlabel("FLOP per byte", fontsize=_style.SMALL, color=_style.SOFT)
    axes.set_ylabel("GFLOP/s", fontsize=_style.SMALL, color=_style.SOFT)
    axes.tick_params(labelsize=_style.SMALL, colors=_style.SOFT)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def groups(cells: list[Part], at: list[float], rates: list[float]) -> list[tuple[str, float, float]]:
    """A label, and where: of points that lie together the largest's, with how many more there are."""
    found: list[tuple[Part, float, float, int]] = []
    for cell, x, y in sorted(zip(cells, at, rates, strict=True), key=lambda point: -point[0].a):
        near = [i for i, (_, a, b, _) in enumerate(found) if max(x / a, a / x) < SIDE and max(y / b, b / y) < UPON]
        if near:
            first, a, b, more = found[near[0]]
            found[near[0]] = first, a, b, more + 1
        else:
            found.append((cell, x, y, 0))
    return [(f"{cell.row}{f' and {more} more' if more else ''}", x, y) for cell, x, y, more in found[:LABELS]]


def _labels(axes: Axes, labels: list[tuple[str, float, float]], decades: float) -> None:
    """One under the other where they would touch; `decades` that the axis of rates has."""
    line = decades * 0.17 / BODY
    taken: list[tuple[float, float]] = []
    for label, x, y in sorted(labels, key=lambda one: -one[2]):
        place = math.log10(x), math.log10(y)
        while any(abs(place[0] - a) < 0.7 and abs(place[1] - b) < line for a, b in taken):
            place = place[0], place[1] - line / 4
        taken.append(place)
        text = _style.shown(_style.clipped(label, 48))
        axes.annotate(text, (x, y), (x * 1.12, 10 ** place[1]), fontsize=7.5, color=_style.INK, va="center")
