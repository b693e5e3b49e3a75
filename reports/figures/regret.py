"""Regret of a default by layer and pass: its time over that of the fastest, chosen in other rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.figures import _axes, _style
from reports.figures._groups import layer
from reports.record import Comparison, Contest, Result, Run
from reports.regret import CHANGING, REGRET, SEARCH, common, fastest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PASSES = {
    "forward": _style.Look("#0072B2", "o"),
    "dgrad": _style.Look("#D55E00", "s"),
    "wgrad": _style.Look("#009E73", "^"),
}
STEP = 0.34  # inches of a layer's row
APART = 0.24  # distance between passes as a share of the row


@dataclass(frozen=True)
class Regret:
    """The cost of the default for a layer and pass.

    `again`: the default against the fastest in fresh rounds, None where nothing was faster."""

    layer: str
    direction: str
    margin: float
    best: str
    again: Comparison | None

    @property
    def value(self) -> float:
        return (self.again.ratio if self.again else None) or 1.0

    @property
    def ends(self) -> tuple[float, float]:
        low, high = (self.again.low, self.again.high) if self.again else (None, None)
        return low or self.value, high or self.value


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return one picture if the run searched for the fastest variant, else none."""
    by_layer: dict[str, list[Regret]] = {}
    for regret in _regrets(run):
        by_layer.setdefault(regret.layer, []).append(regret)
    if not by_layer:
        return []
    layers = sorted(by_layer.values(), key=lambda every: -max(x.value for x in every))
    shown, left = layers[: _axes.MOST], layers[_axes.MOST :]
    defaults = ", ".join(dict.fromkeys(default.variant for _, default, _ in _searches(run)))
    title = "How much slower is the default than the fastest of a search?"
    sheet = _style.Sheet(title, [f"default: {defaults}", _style.where(run)])
    sheet.notes.append(
        "The fastest was chosen in other rounds than those shown, as chance favors it there. Hollow, at 1: none was "
        "faster there."
    )
    if left:
        most = max(x.value for every in left for x in every)
        sheet.notes.append(f"{len(left)} more layers are left out, none above {most:.2f}.")
    return [("", _picture(sheet, shown))]


def _searches(run: Run) -> Iterator[tuple[Contest, Result, Result]]:
    """Yield each search with its default and its fastest result."""
    for contest in run.contests:
        if contest.contest.partition("/")[0] in (SEARCH, CHANGING) and (pair := fastest(contest)):
            yield contest, *pair


def _regrets(run: Run) -> Iterator[Regret]:
    again = {
        common(x.contest): x.comparisons[0]
        for x in run.contests
        if x.contest.startswith(f"{REGRET}/") and x.comparisons[0].ratio is not None
    }
    for contest, default, best in _searches(run):
        measured = again.get(common(contest.contest))
        if best is default or measured is not None:
            margin = contest.comparisons[0].margin
            yield Regret(layer(best), str(best.problem["direction"]), margin, best.variant, measured)


def _picture(sheet: _style.Sheet, layers: list[list[Regret]]) -> Figure:
    every = [regret for passes in layers for regret in passes]
    margins = sorted({regret.margin for regret in every})
    sheet.entries += [
        (_style.handle(color=look.color, marker=look.marker), name)
        for name, look in PASSES.items()
        if any(regret.direction == name for regret in every)
    ]
    figure = sheet.figure(STEP * (len(layers) + 1) + _axes.FRAME)
    axes = _axes.rows(figure, [passes[0].layer for passes in layers], range(len(layers)))
    _axes.ratios(axes, False, [end for regret in every for end in (regret.value, *regret.ends)], margins)
    for i, passes in enumerate(layers):
        _points(axes, i, passes)
    largest = [max(passes, key=lambda regret: regret.value) for passes in layers]
    beside = [
        (units.ratio(x.value, *x.ends), f"{x.direction}, {x.best}") if x.again else ("1", f"{x.direction}, none faster")
        for x in largest
    ]
    _axes.finish_rows(axes, beside, "time of the default over time of the fastest, with its 95 % interval")
    return figure


def _points(axes: Axes, row: int, passes: list[Regret]) -> None:
    """Draw the passes of a layer below each other."""
    names = list(PASSES)
    for x in passes:
        at = row + APART * (names.index(x.direction) - 1)
        _axes.Point(x.value, x.ends, PASSES[x.direction], hollow=x.again is None).draw(axes, False, at)
