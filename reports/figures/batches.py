"""Steps of frameworks over the batch: the time of one, and how many samples a second that makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports import units
from reports.figures import _axes, _groups, _style, _sweep
from reports.record import Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 3.6  # inches
KEYS = ("variant", "device", "heap")  # what tells a line from another; each number of threads has axes of its own
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
    threads = sorted({x.threads for x in results})
    figure = sheet.figure(HEIGHT * len(threads))
    for count, (left, right) in zip(threads, figure.subplots(len(threads), 2, squeeze=False), strict=True):
        for label, own in lines.items():
            alike = [x for x in own if x.threads == count]
            for axes, rate in ((left, False), (right, True)) if alike else ():
                _line(axes, looks[label], alike, rate)
        told = f", {units.counted(count, 'thread')}" * (len(threads) > 1)
        there = [x for x in results if x.threads == count]
        _frame(left, there, False, f"ms of a step{told}")
        _frame(right, there, True, f"samples a second{told}")
    return figure


def _line(axes: Axes, drawn: _sweep.Drawn, own: Sequence[Result], rate: bool) -> None:
    batches = [int(str(x.problem["batch"])) for x in own]
    order = sorted(zip(batches, own, strict=True), key=lambda pair: pair[0])
    drawn.plot(axes, [(batch, _value(x, batch, rate)) for batch, x in order])
    for batch, x in order:
        _axes.Point(_value(x, batch, rate), _ends(x, batch, rate), drawn.look, x.status != "ok").draw(axes, True, batch)


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
