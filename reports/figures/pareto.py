"""Time over the bytes that kernels hold beside their operands: all of them, and the steps that nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports import units
from reports.figures import _axes, _style
from reports.figures._layers import layer
from reports.frontier import FRONTIER, frontier, timed
from reports.record import Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.6  # inches of a panel
TICKS = tuple(1 << power for power in range(10, 44, 2))  # bytes
FEW = 5  # of them beside each other
MILLI = 1e-3


@dataclass(frozen=True)
class Scale:
    """What all panels have in common: the smallest bytes that are none, the largest; seconds."""

    least: float
    most: float
    times: tuple[float, float]

    @property
    def nothing(self) -> float:
        """Where on a logarithmic axis none stand."""
        return self.least / 8

    def at(self, nbytes: int) -> float:
        return nbytes or self.nothing


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each layer, its passes beside each other."""
    looks = _style.looks(run)
    by_layer: dict[str, list[Contest]] = {}
    for contest in run.contests:
        if contest.contest.startswith(f"{FRONTIER}/") and timed(contest):
            by_layer.setdefault(layer(timed(contest)[0][1]), []).append(contest)
    pictures = []
    for i, (name, contests) in enumerate(by_layer.items()):
        sheet = _style.Sheet("How much time for how many bytes beside the operands?", [name, _style.where(run)])
        sheet.notes.append(
            "Hollow: another holds no more and is as fast. Chosen in these rounds, and measured again in fresh ones."
        )
        pictures.append((str(i + 1) if len(by_layer) > 1 else "", _picture(sheet, contests, looks)))
    return pictures


def _picture(sheet: _style.Sheet, contests: Sequence[Contest], looks: dict[str, _style.Look]) -> Figure:
    every = [x for contest in contests for _, x in timed(contest)]
    sheet.entries += [
        (_style.handle(color=looks[name].color, marker=looks[name].marker), name)
        for name in dict.fromkeys(x.variant for x in every)
    ]
    held = [x.workspace for x in every if x.workspace]
    ends = [end for x in every for end in _ends(x)]
    scale = Scale(min(held, default=TICKS[0]), max(held, default=TICKS[1]), (min(ends), max(ends)))
    figure = sheet.figure(HEIGHT)
    grid: Any = figure.subplots(1, len(contests), sharey=True, squeeze=False)
    for axes, contest in zip(grid.flat, contests, strict=True):
        _panel(axes, contest, scale, looks)
    grid.flat[0].set_ylabel("ms", fontsize=_style.TEXT)
    return figure


def _ends(x: Result) -> tuple[float, float]:
    assert x.seconds is not None
    return x.seconds.low or x.seconds.median, x.seconds.high or x.seconds.median


def _panel(axes: Axes, contest: Contest, scale: Scale, looks: dict[str, _style.Look]) -> None:
    """One pass."""
    low, high = scale.times
    _axes.graduate(axes, True, (low / 1.15, high * 1.15), high > 3 * low, MILLI)
    _axes.quiet(axes)
    left, right = scale.nothing / 2, scale.most * 4
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    inside = [x for x in TICKS if scale.least <= x <= right]
    shown = inside[:: -(-len(inside) // FEW)] if inside else []
    _axes.ticks(axes.xaxis, [scale.nothing, *shown], ["0", *map(units.binary, shown)])
    axes.grid(axis="both", color=_style.GUIDE, linewidth=0.8)
    steps = frontier(contest)
    places = [scale.at(x.workspace) for x in steps]
    heights = [x.seconds.median for x in steps if x.seconds]
    axes.step([*places, right], [*heights, heights[-1]], where="post", color=_style.SOFT, linewidth=1.2, zorder=2)
    names = {x.name for x in steps}
    for seconds, x in timed(contest):
        point = _axes.Point(seconds, _ends(x), looks[x.variant], hollow=x.name not in names)
        point.draw(axes, True, scale.at(x.workspace))
    title = str(steps[0].problem.get("direction", ""))
    axes.set_title(_style.shown(title), fontsize=_style.TEXT, color=_style.INK, loc="left")
    axes.set_xlabel("bytes beside the operands", fontsize=_style.TEXT)
