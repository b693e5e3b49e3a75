"""Draws docs/pictures/rooms.svg: the folders of the four packages and what they import. `python -m docs.rooms`

Boxes stand in layers, each above all that it imports. An arrow that two or more others make needless is left out.
The picture holds the arrows as data too, in its description: by that a test knows whether it is up to date.
"""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tests import house

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = house.ROOT / "docs/pictures/rooms.svg"
COLUMNS = (("macro",), ("micro",), ("kernels", "reports"))  # packages beside and below each other
COLORS = {"macro": "#dbe9f6", "micro": "#e2f0d9", "kernels": "#fbe5d1", "reports": "#ece3f4"}
INK, LINE = "#222222", "#666666"
BOX = 1.06, 0.34  # inches
STEP = 1.2, 0.68  # from a box to the one beside it and to the one below
FRAME, TITLE, GAP = 0.14, 0.34, 0.42  # around the boxes of a package, above them, and between two packages

Arrow: TypeAlias = tuple[str, str]
Row: TypeAlias = tuple[str | Arrow, ...]  # a layer: rooms, and the arrows that pass between them
Point: TypeAlias = tuple[float, float]
Frame: TypeAlias = tuple[float, float, float, float]  # upper left corner, width, height


def graph() -> dict[str, list[Arrow]]:
    """The arrows that are drawn: between the packages under "", and by package between its rooms."""
    outside = {(house.room(x.importer)[0], house.room(x.imported)[0]) for x in house.imports()}
    found = {"": needed(sorted(arrow for arrow in outside if arrow[0] != arrow[1]))}
    for package, arrows in house.arrows().items():
        place = {room: i for i, room in enumerate(house.ROOMS[package])}
        found[package] = needed([(a, b) for a, b in arrows if place[a] < place[b]])
    return found


def needed(arrows: Sequence[Arrow]) -> list[Arrow]:
    """Without those that only repeat where others lead."""
    below: dict[str, list[str]] = {}
    for first, second in arrows:
        below.setdefault(first, []).append(second)

    def reached(name: str) -> set[str]:
        return {x for other in below.get(name, ()) for x in (other, *reached(other))}

    return [(a, b) for a, b in arrows if not any(b in reached(other) for other in below[a])]


class Panel(NamedTuple):
    """A package: its layers from the top down."""

    rows: tuple[Row, ...]

    @property
    def size(self) -> Point:
        """Inches."""
        width = max(sum(_wide(x) for x in row) for row in self.rows) - STEP[0] + BOX[0]
        return width + 2 * FRAME, (len(self.rows) - 1) * STEP[1] + BOX[1] + 2 * FRAME + TITLE

    def places(self, corner: Point) -> dict[tuple[int, str | Arrow], Point]:
        """Where the middle of each lies, by its layer too, in a panel whose upper left corner is here."""
        found = {}
        for i, row in enumerate(self.rows):
            x = corner[0] + (self.size[0] - sum(_wide(one) for one in row)) / 2
            for one in row:
                x += _wide(one) / 2
                found[i, one] = x, corner[1] - TITLE - FRAME - BOX[1] / 2 - i * STEP[1]
                x += _wide(one) / 2
        return found


def _wide(one: str | Arrow) -> float:
    return STEP[0] if isinstance(one, str) else 0.45


def panel(package: str, arrows: Sequence[Arrow]) -> Panel:
    """Every room as low as what imports it demands, no lower; one without arrows at the bottom; few crossings."""
    level = dict.fromkeys(house.ROOMS[package], 0)
    for name, (first, second) in itertools.product(house.ROOMS[package], arrows):  # an arrow leads to a later one
        if name == first:
            level[second] = max(level[second], level[first] + 1)
    last = max(level.values())
    level |= dict.fromkeys(set(level) - {room for arrow in arrows for room in arrow}, last)
    rows: list[Row] = [tuple(room for room in level if level[room] == i) for i in range(last + 1)]
    for first, second in arrows:
        for i in range(level[first] + 1, level[second]):
            rows[i] = (*rows[i], (first, second))
    tries = (_ordered([top, *rows[1:]], arrows) for top in itertools.permutations(rows[0]))
    return Panel(tuple(min(tries, key=lambda made: _tangle(made, arrows))))


def _ordered(rows: list[Row], arrows: Sequence[Arrow]) -> list[Row]:
    """Each layer in the best order for those beside it, downwards and upwards some times."""
    for _ in range(4):
        for i in (*range(1, len(rows)), *range(len(rows) - 2, 0, -1)):
            orders = itertools.permutations(rows[i])
            rows[i] = min(
                orders, key=lambda row, i=i: _tangle([*rows[max(0, i - 1) : i], row, *rows[i + 1 : i + 2]], arrows)
            )
    return rows


def _tangle(rows: Sequence[Row], arrows: Sequence[Arrow]) -> tuple[int, float]:
    """Crossings between these layers, then how far their lines lean."""
    crossings, lean = 0, 0.0
    for upper, lower in itertools.pairwise(rows):
        ends = [(upper.index(a), lower.index(b)) for a, b in _steps(upper, lower, arrows)]
        crossings += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(ends, 2))
        lean += sum(abs((a + 0.5) / len(upper) - (b + 0.5) / len(lower)) for a, b in ends)
    return crossings, lean


def _steps(upper: Row, lower: Row, arrows: Sequence[Arrow]) -> Iterator[tuple[str | Arrow, str | Arrow]]:
    """The pieces of arrows between two layers."""
    for arrow in arrows:
        first = arrow[0] if arrow[0] in upper else arrow
        second = arrow[1] if arrow[1] in lower else arrow
        if first in upper and second in lower:
            yield first, second


def drawn() -> dict[str, list[Arrow]]:
    """The arrows of the picture that is there."""
    description = re.search(r"<dc:description>(.*?)</dc:description>", PICTURE.read_text("utf-8"), re.S)
    arrows = json.loads(html.unescape(description[1])) if description else {}
    return {package: [(a, b) for a, b in pairs] for package, pairs in arrows.items()}


def draw(found: Mapping[str, Sequence[Arrow]]) -> None:
    """Write the picture, whose description is the arrows."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = {package: panel(package, arrows) for package, arrows in found.items() if package}
    widths = [max(panels[x].size[0] for x in column) for column in COLUMNS]
    heights = [sum(panels[x].size[1] for x in column) + GAP * (len(column) - 1) for column in COLUMNS]
    whole = sum(widths) + GAP * (len(COLUMNS) - 1) + 0.2, max(heights) + 0.2
    figure = Figure(figsize=whole)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, whole[0]), ylim=(-whole[1], 0))
    axes.axis("off")
    frames: dict[str, Frame] = {}
    x = 0.1
    for column, width, height in zip(COLUMNS, widths, heights, strict=True):
        y = -(whole[1] - height) / 2
        for package in column:
            frames[package] = x, y, width, panels[package].size[1]
            _package(axes, package, panels[package], found[package], frames[package])
            y -= panels[package].size[1] + GAP
        x += width + GAP
    for first, second in found[""]:
        _between(axes, frames[first], frames[second])
    with mpl.rc_context({"svg.hashsalt": "rooms", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(PICTURE, metadata={"Date": None, "Description": json.dumps(found)})


def _package(axes: Axes, name: str, made: Panel, arrows: Sequence[Arrow], frame: Frame) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y, width, height = frame
    style = {"boxstyle": "round,pad=0,rounding_size=0.08", "mutation_scale": 1}
    axes.add_patch(FancyBboxPatch((x, y - height), width, height, facecolor=COLORS[name], edgecolor="none", **style))
    axes.text(x + FRAME, y - 0.22, name, fontsize=13, weight="bold", color=INK, va="center")
    places = made.places((x + (width - made.size[0]) / 2, y))
    for arrow in arrows:
        _arrow(axes, [place for one, place in places.items() if one[1] in (*arrow, arrow)])
    for (_, one), (at, up) in places.items():
        if isinstance(one, str):
            corner = at - BOX[0] / 2, up - BOX[1] / 2
            axes.add_patch(FancyBboxPatch(corner, *BOX, facecolor="white", edgecolor=LINE, linewidth=0.8, **style))
            axes.text(at, up, one, fontsize=11, color=INK, ha="center", va="center")


def _arrow(axes: Axes, points: Sequence[Point]) -> None:
    """Through these points downwards, upright in each."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    ends = [points[0][0], points[0][1] - BOX[1] / 2], [points[-1][0], points[-1][1] + BOX[1] / 2 + 0.01]
    line = [tuple(ends[0]), *points[1:-1], tuple(ends[1])]
    curve, codes = [line[0]], [Path.MOVETO]
    for (x, y), (to, down) in itertools.pairwise(line):
        middle = (y + down) / 2
        curve += [(x, middle), (to, middle), (to, down)]
        codes += [Path.CURVE4] * 3
    path = Path(curve, codes)
    axes.add_patch(FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=9, color=LINE, linewidth=1.0))


def _between(axes: Axes, first: Frame, second: Frame) -> None:
    """From one package to the one beside it."""
    from matplotlib.patches import FancyArrowPatch

    start, end = first[0] + first[2], second[0]
    height = second[1] - second[3] / 2 if second[3] < first[3] else first[1] - first[3] / 2
    ends = (start + 0.03, height), (end - 0.03, height)
    axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=18, color=INK, linewidth=2.2))


if __name__ == "__main__":
    draw(graph())
