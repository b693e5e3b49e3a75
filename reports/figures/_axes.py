"""Axes, points with intervals, rows of cases. `upright`: the axis of values is y, else x."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.figures import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


MOST = 40  # rows of one picture
STEP, FRAME = 0.25, 0.65  # inches of a row, and of the margins above and below all rows


def quiet(axes: Axes) -> None:
    """Hide the top and right spines; soften the others and the ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_style.SOFT)
    axes.tick_params(labelsize=_style.SMALL, color=_style.SOFT, labelcolor=_style.INK)
    axes.set_axisbelow(True)


def ticks(axis: Axis, values: Sequence[float], labels: Sequence[str]) -> None:
    """Set these major ticks with their labels, and no minor ticks."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_major_formatter(FixedFormatter(list(labels)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def graduate(
    axes: Axes, upright: bool, ends: tuple[float, float], steep: bool, unit: float = 1.0, count: int = 7
) -> None:
    """Scale the axis of values, logarithmic if `steep`, with ticks at round multiples of `unit`."""
    name = "y" if upright else "x"
    axes.set(**{f"{name}scale": "log" if steep else "linear", f"{name}lim": ends})
    low, high = ends[0] / unit, ends[1] / unit
    numbers = _powers(low, high) if steep and high / low >= 4 else _even(low, high, count)
    values = [x for x in numbers if low <= x <= high]
    axis = axes.yaxis if upright else axes.xaxis
    ticks(axis, [x * unit for x in values], [f"{x:.10g}" for x in values])


def _even(low: float, high: float, count: int) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    numbers = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [round(float(x), 12) for x in numbers]


def _powers(low: float, high: float) -> list[float]:
    digits: tuple[float, ...] = (1.0,)
    if high / low < 2000:
        digits = (1.0, 2.0, 5.0) if high / low >= 12 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [digit * 10.0**power for power in powers for digit in digits]


def ratios(axes: Axes, upright: bool, ends: Sequence[float], margins: Sequence[float]) -> tuple[float, float]:
    """Scale an axis of ratios, with the line at 1 and the margins around it; return its limits.

    The axis is logarithmic: twice and half are equally far from 1."""
    reach = [*ends, *(1 + 1.5 * x for x in margins), *(1 / (1 + 1.5 * x) for x in margins)]
    pad = (max(reach) / min(reach)) ** 0.06
    limits = min(reach) / pad, max(reach) * pad
    graduate(axes, upright, limits, steep=True)
    span, line = (axes.axhspan, axes.axhline) if upright else (axes.axvspan, axes.axvline)
    for margin in margins:
        band: dict[str, Any] = {"color": _style.FAINT, "alpha": 0.8 / len(margins), "linewidth": 0, "zorder": 0.6}
        span(1 - margin, 1 + margin, **band)
    line(1.0, color=_style.INK, linewidth=0.9, zorder=1)
    quiet(axes)
    return limits


def note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """Annotate the place `at` in small letters, shifted by `offset` points."""
    style = {"fontsize": _style.SMALL, "color": _style.INK, **style}
    axes.annotate(_style.shown(text), at, offset, textcoords="offset points", **style)


def sign(axes: Axes, upright: bool, at: float, value: float, marker: str, **style: Any) -> None:
    x, y = (at, value) if upright else (value, at)
    style = {"markersize": 5.5, "zorder": 4, **style}
    axes.plot([x], [y], linestyle="none", marker=marker, **style)


@dataclass(frozen=True)
class Point:
    """A value with its interval, in its variant's color and marker; hollow if the value is in doubt."""

    value: float
    ends: tuple[float, float]
    look: _style.Look
    hollow: bool

    def draw(self, axes: Axes, upright: bool, at: float) -> None:
        """Draw the point; `at`: position along the other axis."""
        color = self.look.color
        (axes.vlines if upright else axes.hlines)([at], *self.ends, color=color, linewidth=1.5, zorder=3)
        face = "white" if self.hollow else color
        sign(axes, upright, at, self.value, self.look.marker, color=color, markerfacecolor=face, markeredgewidth=1.3)


def rows_height(count: int) -> float:
    return STEP * (count + 1) + FRAME


def fewest(measures: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return the positions of the MOST smallest measures, ascending, and the other measures."""
    order = sorted(range(len(measures)), key=lambda i: measures[i])
    return sorted(order[:MOST]), [measures[i] for i in order[MOST:]]


def rows(figure: Figure, labels: Sequence[str], groups: Sequence[object], wide: int = 52) -> Axes:
    """Return axes with a row for each label, the first on top, and lines between groups.

    `wide`: most letters of a label."""
    axes = figure.subplots()
    axes.set_ylim(len(labels) - 0.3, -0.7)
    ticks(axes.yaxis, range(len(labels)), [_style.shown(_style.clipped(label, wide)) for label in labels])
    axes.grid(axis="y", color=_style.GUIDE, linewidth=0.8)
    for i, (group, before) in enumerate(zip(groups[1:], groups, strict=False)):
        if group != before and len(set(groups)) < len(groups):
            axes.axhline(i + 0.5, color=_style.SOFT, linewidth=0.5, zorder=0)
    return axes


def finish_rows(axes: Axes, rows: Sequence[Sequence[str]], label: str) -> None:
    """Write texts right of each row and the x label; remove the left spine and its tick marks."""
    aside(axes, rows)
    axes.set_xlabel(label, fontsize=_style.TEXT)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def aside(axes: Axes, rows: Sequence[Sequence[str]]) -> None:
    """Write texts to the right of each row, in aligned columns."""
    offset = 8.0
    for column in zip(*rows, strict=True):
        for i, text in enumerate(column):
            note(
                axes,
                text,
                (1.0, i),
                (offset, 0),
                xycoords=("axes fraction", "data"),
                va="center",
                annotation_clip=False,
            )
        offset += 5.8 * max(map(len, column)) + 10
