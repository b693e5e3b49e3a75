"""How fast each network's gradient is moved: a bar for each way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports import units
from reports.figures import _axes, _groups, _rows, _style
from reports.record import Result, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAR = 0.7  # of a row
GIGA = 1e9


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture of the contests that name a network, where two of them or more were timed."""
    looks = _style.looks(run)
    pictures = []
    for group in _groups.groups(run):
        timed = [x for x in group.measured if x.op == "transfer" and x.seconds and network(x)]
        if len({network(x) for x in timed}) > 1:
            about = [_groups.size(group), _style.where(run)]
            sheet = _style.Sheet("How fast is each network's gradient moved?", about)
            if more := len(timed[_rows.MOST :]):
                sheet.notes.append(f"{more} more cases are left out.")
            pictures.append((group.slug, _picture(sheet, timed[: _rows.MOST], looks)))
    return pictures


def network(x: Result) -> str:
    """`fcn-r`, as its contest tells; empty of another kind of contest."""
    words = dict(word.partition(":")[::2] for word in x.contest.split("/"))
    return words.get("network", "")


def _picture(sheet: _style.Sheet, timed: Sequence[Result], looks: dict[str, _style.Look]) -> Figure:
    sheet.entries += _style.doubts(timed)
    figure = sheet.figure(_rows.height(len(timed)))
    differ = [key for key in _groups.varying(map(_groups.facts, timed)) if key != "size"] or ["variant"]
    labels = [f"{network(x)}, {_groups.case_label(_groups.facts(x), differ)}" for x in timed]
    axes = _rows.rows(figure, labels, [network(x) for x in timed])
    rates = [_rates(x) for x in timed]
    _axes.graduate(axes, False, (0.0, 1.04 * max(high for *_, high in rates)), False, GIGA)
    _axes.quiet(axes)
    for i, (x, (middle, low, high)) in enumerate(zip(timed, rates, strict=True)):
        look = looks[x.variant]
        axes.barh([i], [middle], BAR, color=look.color, alpha=0.45, zorder=2)
        _axes.Point(middle, (low, high), look, x.status != "ok").draw(axes, False, i)
    _rows.aside(axes, [(units.scaled(_size(x), "B"), units.seconds(_seconds(x)[0])) for x in timed])
    axes.set_xlabel("GB of the gradient a second, with the 95 % interval", fontsize=_style.TEXT)
    _rows.finish(axes)
    return figure


def _size(x: Result) -> int:
    return int(x.problem["size"])


def _seconds(x: Result) -> tuple[float, float, float]:
    """With its ends; itself where it has none."""
    assert x.seconds is not None
    middle = x.seconds.median
    return middle, x.seconds.low or middle, x.seconds.high or middle


def _rates(x: Result) -> tuple[float, float, float]:
    """Bytes of the gradient a second, and the ends of the interval."""
    middle, low, high = _seconds(x)
    return _size(x) / middle, _size(x) / high, _size(x) / low
