"""Rows of cases or comparisons: labels to the left, a mark on a common axis, words to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.figures import _axes, _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 40  # rows of one picture
STEP, FRAME = 0.25, 0.65  # inches of a row, and of what is above and below all of them


def height(count: int) -> float:
    return STEP * (count + 1) + FRAME


def fewest(measures: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return positions of the smallest, as many as fit, in order, and the others' measures."""
    order = sorted(range(len(measures)), key=lambda i: measures[i])
    return sorted(order[:MOST]), [measures[i] for i in order[MOST:]]


def rows(figure: Figure, labels: Sequence[str], groups: Sequence[object], wide: int = 52) -> Axes:
    """Return axes with a row for each label, the first on top, and a line between groups.

    `wide`: letters of a label at most."""
    axes = figure.subplots()
    axes.set_ylim(len(labels) - 0.3, -0.7)
    _axes.ticks(axes.yaxis, range(len(labels)), [_style.shown(_style.clipped(label, wide)) for label in labels])
    axes.grid(axis="y", color=_style.GUIDE, linewidth=0.8)
    for i, (group, before) in enumerate(zip(groups[1:], groups, strict=False)):
        if group != before and len(set(groups)) < len(groups):
            axes.axhline(i + 0.5, color=_style.SOFT, linewidth=0.5, zorder=0)
    return axes


def finish(axes: Axes) -> None:
    """Remove the spine and the tick marks at the labels."""
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def aside(axes: Axes, rows: Sequence[Sequence[str]]) -> None:
    """Write words to the right of each row, in columns as wide as their longest."""
    offset = 8.0
    for column in zip(*rows, strict=True):
        for i, text in enumerate(column):
            axes.annotate(
                _style.shown(text),
                (1.0, i),
                (offset, 0),
                xycoords=("axes fraction", "data"),
                va="center",
                textcoords="offset points",
                fontsize=_style.SMALL,
                color=_style.INK,
                annotation_clip=False,
            )
        offset += 5.8 * max(map(len, column)) + 10
