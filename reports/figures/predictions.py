"""Predicted against measured: the expected and the measured effect of each change of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports import units
from reports.figures import _axes, _style
from reports.prediction import NEAR, word
from reports.record import Expected, Prediction, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 5.0  # inches
LINE = 0.038  # height of a listed name as a share of the axes
MANY = 10  # points; with more, axes are symmetric logarithmic and only refuted predictions are named
MARKS = (0.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)  # per cent
POINTS = 400  # intervals of the diagonal's line
LOOKS: dict[str, dict[str, Any]] = {
    "confirmed": {"color": "#0072B2", "marker": "o"},
    "refuted": {"color": "#D55E00", "marker": "D"},
    "undecided": {"color": "#E69F00", "marker": "D", "markerfacecolor": "white"},
    "below resolution": {"color": _style.SOFT, "marker": "s", "markerfacecolor": "white"},
}


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return one picture of all measured predictions of a run."""
    judged = [x for x in run.predictions if x.predicted and x.measured and word(x) in LOOKS]
    return [("", _picture(run, judged))] if judged else []


def _picture(run: Run, judged: Sequence[Prediction]) -> Figure:
    counts = [(verdict, sum(word(x) == verdict for x in judged)) for verdict in LOOKS]
    title = f"{units.counted(len(judged), 'change')} of a step predicted and timed: "
    sheet = _style.Sheet(
        title + ", ".join(f"{count} {verdict}" for verdict, count in counts if count),
        [
            f"{_style.model(run)}, {run.environment.started[:10]}",
            "% of the unchanged step (negative: faster)",
            "90 % intervals",
        ],
        [(_style.handle(**LOOKS[verdict]), verdict) for verdict, count in counts if count],
        [
            "Line: predicted = measured; band: within a tenth. Each prediction was recorded before the first timed "
            "step with its change."
        ],
    )
    figure = sheet.figure(HEIGHT)
    axes = figure.subplots()
    _frame(axes, judged)
    for x in judged:
        _point(axes, x, _name(x, judged) if len(judged) <= MANY else "")
    refuted = [x for x in judged if x.verdict == "refuted"] if len(judged) > MANY else []
    for line, x in enumerate(sorted(refuted, key=lambda x: _share(x, x.measured))):
        _listed(axes, x, _name(x, judged), line)
    return figure


def _share(x: Prediction, of: Expected | None) -> tuple[float, float, float]:
    """Return center, low end and high end in per cent of the unchanged step."""
    assert of is not None
    return 100 * of.seconds / x.step, 100 * of.low / x.step, 100 * of.high / x.step


def _frame(axes: Axes, judged: Sequence[Prediction]) -> None:
    ends = [end for x in judged for of in (x.predicted, x.measured) for end in _share(x, of)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.15 * (high - low) or 1.0
    low, high = low - room, high + room
    line = [low + (high - low) * i / POINTS for i in range(POINTS + 1)]
    axes.plot(line, line, color=_style.SOFT, linewidth=0.8, zorder=1)
    below, above = ([x * (1 + side * NEAR) for x in line] for side in (-1, 1))
    axes.fill_between(line, below, above, color=_style.FAINT, linewidth=0, zorder=0)
    if len(judged) > MANY:  # small ones would lie on each other
        marks = [sign * x for sign in (-1, 1) for x in MARKS if low <= sign * x <= high]
        axes.set_xscale("symlog", linthresh=MARKS[1])
        axes.set_yscale("symlog", linthresh=MARKS[1])
        for axis in (axes.xaxis, axes.yaxis):
            _axes.ticks(axis, sorted({*marks, 0.0}), [f"{x + 0.0:g}" for x in sorted({*marks, 0.0})])
    for zero in (axes.axhline, axes.axvline):
        zero(0, color=_style.FAINT, linewidth=0.8, zorder=0)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    _axes.quiet(axes)
    axes.set_xlabel("measured, % of the step", fontsize=_style.TEXT)
    axes.set_ylabel("predicted, % of the step", fontsize=_style.TEXT)


def _point(axes: Axes, x: Prediction, name: str) -> None:
    (across, left, right), (up, below, above) = _share(x, x.measured), _share(x, x.predicted)
    look = LOOKS[word(x)]
    axes.plot([left, right], [up, up], color=look["color"], linewidth=0.8, zorder=2)
    axes.plot([across, across], [below, above], color=look["color"], linewidth=0.8, zorder=2)
    axes.plot([across], [up], linestyle="none", markersize=6, zorder=3, **look)
    if not name:
        return
    over = up > across > 0  # the name is on the side away from the line, and inside
    offset, side = ((-6, 5), "right") if over else ((6, -11), "left")
    _axes.note(axes, _style.clipped(name, 30), (across, up), offset, ha=side, color=_style.SOFT)


def _listed(axes: Axes, x: Prediction, name: str, line: int) -> None:
    """Write a name into the list at the lower right, where there are no points."""
    across, up = _share(x, x.measured)[0], _share(x, x.predicted)[0]
    axes.annotate(
        _style.shown(_style.clipped(name, 40)),
        (across, up),
        (0.62, 0.03 + LINE * line),
        textcoords="axes fraction",
        va="center",
        fontsize=_style.SMALL,
        color=_style.SOFT,
        arrowprops={"arrowstyle": "-", "color": _style.FAINT, "linewidth": 0.8, "shrinkB": 4},
    )


def _name(x: Prediction, judged: Sequence[Prediction]) -> str:
    """Return the change, with its network and framework if the predictions are of several steps."""
    steps = {(other.network, other.framework, other.batch, other.threads) for other in judged}
    return x.change if len(steps) == 1 else f"{x.change}, {x.network} {x.framework}"
