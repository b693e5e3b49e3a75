"""From a step as it was to the step as it can be: what each change that was made leaves of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports import advice, units
from reports.figures import _axes, _style
from reports.record import Prediction, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, FRAME = 0.3, 0.75  # inches of a bar; of the axis
COLORS = {"as it was": _style.SOFT, "alone": "#56B4E9", "together": "#0072B2", "no certain saving": "#cccccc"}


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture of the advice of a run."""
    notes = [note.data for note in run.notes if note.topic == advice.TOPIC]
    by_name = {x.change: x for x in run.predictions if x.measured}
    return [("", _picture(run, notes[-1], by_name))] if notes and by_name else []


def _picture(run: Run, data: dict[str, object], by_name: dict[str, Prediction]) -> Figure:
    order, winner = data.get("order"), data.get("winner")
    assert isinstance(order, list)
    first = next(iter(by_name.values()))
    single = sorted((x for x in by_name.values() if "+" not in x.change), key=_left)
    both = sorted((x for x in by_name.values() if "+" in x.change), key=_left, reverse=True)
    rows = [(x, "alone" if x.change in order else "no certain saving") for x in reversed(single)]
    rows += [(x, "together") for x in both]
    batch = f", batch {first.batch}" if first.batch else ""
    about = [f"a {first.phase} of {first.network}{batch}, in {first.framework}"]
    about += [units.counted(first.threads, "thread"), _style.where(run).partition(",")[0], run.environment.started[:10]]
    words = dict.fromkeys(["as it was", *(word for _, word in rows)])
    sheet = _style.Sheet(
        _title(by_name.get(str(winner))),
        about,
        [(_style.handle(marker="s", color=COLORS[word]), word) for word in words]
        + [(_style.handle(marker="D", color=_style.INK, markerfacecolor="white"), "predicted")],
        [
            "Each change was timed in turns with the unchanged step"
            + (", its results proven equal" * bool(first.batch))
            + "; whiskers: 90 % intervals."
        ],
    )
    figure = sheet.figure(ROW * (len(rows) + 1) + FRAME)
    _bars(figure.subplots(), rows)
    return figure


def _left(x: Prediction) -> float:
    """Of the unchanged step, with this change."""
    assert x.measured is not None
    return 1 + x.measured.seconds / x.step


def _title(winner: Prediction | None) -> str:
    if winner is None:
        return "Nothing that was tried certainly makes the step faster"
    return f"{winner.change}: a step takes {100 * (1 - _left(winner)):.1f} % less"


def _bars(axes: Axes, rows: Sequence[tuple[Prediction, str]]) -> None:
    axes.barh([0], [100], height=0.62, color=COLORS["as it was"], zorder=2)
    for i, (x, word) in enumerate(rows, 1):
        found = x.measured
        assert found is not None
        axes.barh([i], [100 * _left(x)], height=0.62, color=COLORS[word], zorder=2)
        ends = [100 * (1 + end / x.step) for end in (found.low, found.high)]
        axes.plot(ends, [i, i], color=_style.INK, linewidth=1.0, zorder=3)
        if x.predicted is not None:
            at = 100 * (1 + x.predicted.seconds / x.step)
            axes.plot([at], [i], linestyle="none", marker="D", color=_style.INK, markerfacecolor="white", zorder=4)
    axes.set_yticks(range(len(rows) + 1), ["as it was", *(_style.shown(_style.clipped(x.change, 48)) for x, _ in rows)])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    _axes.quiet(axes)
    axes.set_xlabel("time of a step, % of the unchanged one", fontsize=_style.TEXT)
