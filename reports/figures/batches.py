"""Steps of frameworks over the batch: the time of one, and how many samples a second that makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.figures import _axes, _groups, _style, _sweep
from reports.record import Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.6  # inches
KEYS = ("variant", "threads", "heap")  # what tells a line from another
STEEP = 12  # from this ratio of largest to smallest on the axis is logarithmic


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each network, phase and division that was timed at several batches."""
    timed = [x for x in run.results if x.op == "step" and x.role == "measured" and x.seconds]
    alike: dict[tuple[str, ...], list[Result]] = {}
    for x in timed:
        alike.setdefault(tuple(str(x.problem[name]) for name in ("network", "phase", "division")), []).append(x)
    return [
        ("-".join((network, phase) + (division,) * (division != "default")), _picture(run, network, phase, results))
        for (network, phase, division), results in alike.items()
        if len({x.problem["batch"] for x in results}) > 1
    ]


def _picture(run: Run, network: str, phase: str, results: Sequence[Result]) -> Figure:
    sheet = _style.Sheet(f"A {phase} of {network} over the batch", [_style.where(run)])
    lines: dict[str, list[Result]] = {}
    cases = [_groups.facts(x) for x in results]
    keys = [name for name in KEYS if name == "variant" or name in _groups.varying(cases)]
    for x, case in zip(results, cases, strict=True):
        lines.setdefault(_groups.case_label(case, keys), []).append(x)
    looks = _sweep.drawn({label: (label, own[0].variant) for label, own in lines.items()}, _style.looks(run))
    sheet.entries += [*((look.handle(), look.label) for look in looks.values()), *_style.doubts(results)]
    figure = sheet.figure(HEIGHT)
    left, right = figure.subplots(1, 2)
    for label, own in lines.items():
        batches = [int(str(x.problem["batch"])) for x in own]
        order = sorted(zip(batches, own, strict=True), key=lambda pair: pair[0])
        for axes, rate in ((left, False), (right, True)):
            looks[label].plot(axes, [(batch, _value(x, batch, rate)) for batch, x in order])
            for batch, x in order:
                point = _value(x, batch, rate), _ends(x, batch, rate), looks[label].look, x.status != "ok"
                _axes.Point(*point).draw(axes, True, batch)
    _frame(left, results, False, "ms of a step")
    _frame(right, results, True, "samples a second")
    return figure


def _value(x: Result, batch: int, rate: bool) -> float:
    assert x.seconds is not None
    return batch / x.seconds.median if rate else x.seconds.median


def _ends(x: Result, batch: int, rate: bool) -> tuple[float, float]:
    assert x.seconds is not None
    low, high = x.seconds.low or x.seconds.median, x.seconds.high or x.seconds.median
    return (batch / high, batch / low) if rate else (low, high)


def _frame(axes: Axes, results: Sequence[Result], rate: bool, label: str) -> None:
    """From nothing, or logarithmic where that hides the small ones; the batches that there are."""
    batches = sorted({int(str(x.problem["batch"])) for x in results})
    values = [end for x in results for end in _ends(x, int(str(x.problem["batch"])), rate)]
    steep = max(values) > STEEP * min(values)
    _axes.graduate(axes, True, (min(values) / 1.3 if steep else 0.0, max(values) * 1.15), steep, 1.0 if rate else 1e-3)
    axes.set_xscale("log")
    axes.set_xlim(batches[0] / 1.3, batches[-1] * 1.3)
    _axes.ticks(axes.xaxis, batches, list(map(str, batches)))
    _axes.quiet(axes)
    axes.set_xlabel("batch", fontsize=_style.TEXT)
    axes.set_ylabel(label, fontsize=_style.TEXT)
