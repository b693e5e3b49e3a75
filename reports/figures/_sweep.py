"""Lines of cases along a numeric field, and the axes on which they are drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.figures import _axes, _groups, _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_FACETS, MOST_LINES = 4, 12  # with more panels or lines, a row for each case is clearer
ABREAST = 18  # values of x that fit beside each other
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Line:
    """A line of a sweep: its key, and its points as (x, position of the case in the input)."""

    key: str
    points: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Facet:
    """A panel: the lines of cases that agree in every numeric field but x."""

    title: str
    lines: tuple[Line, ...]

    @property
    def values(self) -> list[float]:
        return sorted({x for line in self.lines for x, _ in line.points})


@dataclass(frozen=True)
class Sweep:
    """Lines along `field`, which is x; `keys` are the fields that distinguish lines."""

    field: str
    keys: tuple[str, ...]
    facets: tuple[Facet, ...]

    @property
    def lines(self) -> dict[str, int]:
        """Position in the input of one case of each line, by the line's key, over all panels."""
        positions: dict[str, int] = {}
        for facet in self.facets:
            for line in facet.lines:
                positions.setdefault(line.key, line.points[0][1])
        return positions


def sweep(cases: Sequence[_groups.Facts]) -> Sweep | None:
    """Return the sweep along the field with the most values; None if a row for each case is clearer.

    A panel has at least three values."""
    differ = _groups.varying(cases)
    numbers = [key for key in differ if key[0] != "/" and all(_number(case.get(key)) for case in cases)]
    keys = tuple(key for key in differ if key not in numbers)
    candidates = [candidate for field in numbers if (candidate := _along(field, numbers, keys, cases))]
    return max(candidates, key=lambda candidate: max(len(facet.values) for facet in candidate.facets), default=None)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _along(field: str, numbers: Sequence[str], keys: tuple[str, ...], cases: Sequence[_groups.Facts]) -> Sweep | None:
    others = [key for key in numbers if key != field]
    by_title: dict[str, dict[str, dict[float, int]]] = {}
    for i, case in enumerate(cases):
        facet = by_title.setdefault(_groups.case_label(case, others), {})
        points = facet.setdefault(repr([case.get(key) for key in keys]), {})
        if case[field] in points:
            return None
        points[case[field]] = i
    facets = tuple(
        Facet(title, tuple(Line(key, tuple(sorted(points.items()))) for key, points in lines.items()))
        for title, lines in by_title.items()
    )
    sizes = [len(facet.values) for facet in facets]
    lines = max(len(facet.lines) for facet in facets)
    plain = len(sizes) <= MOST_FACETS and lines <= MOST_LINES and max(sizes) >= 3
    return Sweep(field, keys, facets) if plain else None


@dataclass(frozen=True)
class Drawn:
    """The look of a line: its variant's color and marker, with a dash pattern for further lines."""

    label: str
    look: _style.Look
    dash: str

    def handle(self) -> Any:
        return _style.handle(
            color=self.look.color, marker=self.look.marker, linestyle=self.dash, linewidth=1.2, markersize=5.5
        )

    def plot(self, axes: Axes, points: Sequence[tuple[float, float]]) -> None:
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=self.look.color, linestyle=self.dash, linewidth=1.0, alpha=0.7, zorder=2)


def drawn(lines: dict[str, tuple[str, str]], looks: dict[str, _style.Look]) -> dict[str, Drawn]:
    """Return the look of each line by key. `lines`: (label, variant) by key."""
    by_key: dict[str, Drawn] = {}
    for key, (label, variant) in lines.items():
        earlier = sum(lines[other][1] == variant for other in by_key)
        by_key[key] = Drawn(label, looks[variant], DASHES[earlier % len(DASHES)])
    return by_key


def panels(figure: Figure, sweep: Sweep) -> list[Axes]:
    """Return the axes: beside each other on a common y axis if they fit, else below each other."""
    counts = [len(facet.values) for facet in sweep.facets]
    if abreast(sweep):
        grid: Any = figure.subplots(1, len(counts), sharey=True, squeeze=False, width_ratios=[n + 1 for n in counts])
    else:
        grid = figure.subplots(len(counts), 1, squeeze=False)
    every = list(grid.flat)
    for axes, facet in zip(every, sweep.facets, strict=True):
        if facet.title:
            axes.set_title(_style.shown(facet.title), fontsize=_style.TEXT, color=_style.INK, loc="left")
    return every


def abreast(sweep: Sweep) -> bool:
    return sum(len(facet.values) for facet in sweep.facets) <= ABREAST


def height(sweep: Sweep, each: float) -> float:
    return each if abreast(sweep) else each * len(sweep.facets)


def along(axes: Axes, field: str, facet: Facet, apart: bool) -> Callable[[float, int], float]:
    """Scale the x axis; return a function from x and line number to a point's x coordinate.

    `apart`: spread the lines' points of equal x beside each other."""
    values, count = facet.values, len(facet.lines)
    steep = values[0] > 0 and values[-1] / values[0] >= 4
    forth, back = (math.log, math.exp) if steep else (float, float)
    places = [forth(x) for x in values]
    step = min((b - a for a, b in itertools.pairwise(places)), default=1.0)
    spread = 0.5 * step * (1 - 1 / count) if apart else 0.0
    span = places[-1] - places[0] or 1.0
    pad = max(0.04 * span, 0.6 * spread + 0.15 * step)
    axes.set_xscale("log" if steep else "linear")
    axes.set_xlim(back(places[0] - pad), back(places[-1] + pad))
    labels = [_groups.plain(x) for x in values]
    _axes.ticks(axes.xaxis, values, _spaced([(x - places[0]) / span for x in places], labels, _share(axes)))
    axes.grid(axis="x", color=_style.GUIDE, linewidth=0.8)
    axes.set_xlabel(_groups.words(field, "").strip(" ="), fontsize=_style.TEXT)

    def place(x: float, line: int) -> float:
        return back(forth(x) + spread * (line / max(1, count - 1) - 0.5))

    return place


def _share(axes: Axes) -> float:
    """Return the axes' share of the width of all panels beside each other."""
    place = axes.get_subplotspec()
    if place is None:
        return 1.0
    widths: Any = place.get_gridspec().get_width_ratios()
    return float(widths[place.colspan.start] / sum(widths))


def _spaced(places: Sequence[float], labels: Sequence[str], share: float) -> list[str]:
    """Return the labels, empty where a label would touch the previous one."""
    shown, end = [], -1.0
    for place, label in zip(places, labels, strict=True):
        half = 0.005 * len(label) / share
        fits = place - half > end
        shown.append(label if fits else "")
        end = place + half + 0.005 / share if fits else end
    return shown
