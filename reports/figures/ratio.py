"""Ratios of contender over baseline with intervals: lines over a size, else a row for each comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from reports import units
from reports.figures import _axes, _groups, _style, _sweep
from reports.record import Comparison, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Pair: TypeAlias = "tuple[_groups.Facts, _groups.Facts]"
PRODUCTS = {"nn": "A·B (nn)", "nt": "A·Bᵀ (nt)", "tn": "Aᵀ·B (tn)", "tt": "Aᵀ·Bᵀ (tt)"}


WILD = 3.0  # ends of intervals beyond this factor of the ratio are cut off


@dataclass(frozen=True)
class Ratio:
    """A comparison that can be drawn; an end of None is unbounded or cut off."""

    comparison: Comparison
    contender: Result
    baseline: Result
    value: float
    low: float | None
    high: float | None

    @property
    def ends(self) -> list[float]:
        ends = (self.low, self.value, self.high, self.comparison.work_ratio)
        return [x for x in ends if x is not None and x > 0]

    @property
    def hollow(self) -> bool:
        return self.comparison.verdict == "unresolved"


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return a picture for each kind of contest that compared anything."""
    pictures = []
    looks = _style.looks(run)
    for group in _groups.groups(run):
        pairs = _groups.pairs(group)
        ratios = [
            Ratio(x, a, b, value, _near(value, x.low), _near(value, x.high))
            for x, a, b in pairs
            if (value := _positive(x.ratio)) is not None
        ]
        if not ratios:
            continue
        sheet = _style.Sheet(group.question, [_groups.size(group), _style.where(run)])
        lost = [x for x, _, _ in pairs if _positive(x.ratio) is None]
        if lost:
            first = _style.clipped(str(lost[0].reason), 200)
            sheet.notes.append(f"Not drawn, without a ratio: {len(lost)} of {len(pairs)}; the first of them: {first}")
        sweep = _sweep.sweep([_groups.pair_facts(x.contender, x.baseline) for x in ratios])
        figure = _lines(sheet, ratios, sweep, looks) if sweep else _table(sheet, ratios, looks)
        pictures.append((group.slug, figure))
    return pictures


def _near(value: float, end: float | None) -> float | None:
    """Return an interval's end, or None if it is unbounded or too far from the ratio to be drawn."""
    positive = _positive(end)
    return positive if positive is not None and value / WILD < positive < value * WILD else None


def _positive(value: float | None) -> float | None:
    """Return the value if a logarithmic axis can show it, else None."""
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _signs(ratios: Sequence[Ratio]) -> list[tuple[Any, str]]:
    """Return the legend entries of the marks that occur."""
    from matplotlib.patches import Patch

    margins = ", ".join(f"{100 * x:g} %" for x in sorted({x.comparison.margin for x in ratios}))
    entries: list[tuple[Any, str]] = [(Patch(color=_style.FAINT), f"margin ±{margins}")]
    if any(x.hollow for x in ratios):
        entries.append((_style.handle(color=_style.SOFT, marker="o", markerfacecolor="white"), "unresolved"))
    if any(x.low is None or x.high is None for x in ratios):
        entries.append((_style.handle(color=_style.SOFT, marker=">"), "interval goes on"))
    if any(x.comparison.work_ratio != 1 for x in ratios):
        entries.append((_style.handle(color=_style.INK, marker="x", markersize=5), "ratio of the work"))
    return entries


def _frame(axes: Axes, ratios: Sequence[Ratio], upright: bool) -> tuple[float, float]:
    """Scale the axis for all ratios; return its limits."""
    ends = [end for x in ratios for end in x.ends]
    return _axes.ratios(axes, upright, ends, sorted({x.comparison.margin for x in ratios}))


def _point(axes: Axes, upright: bool, at: float, ratio: Ratio, limits: tuple[float, float], look: _style.Look) -> None:
    """Draw the ratio, its interval with arrows at unbounded ends, and the ratio of the work."""
    inset = (limits[1] / limits[0]) ** 0.015
    if ratio.low is None:
        _axes.sign(axes, upright, at, limits[0] * inset, "v" if upright else "<", color=look.color)
    if ratio.high is None:
        _axes.sign(axes, upright, at, limits[1] / inset, "^" if upright else ">", color=look.color)
    if ratio.comparison.work_ratio != 1:
        _axes.sign(axes, upright, at, ratio.comparison.work_ratio, "x", color=_style.INK, markersize=5)
    ends = ratio.low or limits[0], ratio.high or limits[1]
    _axes.Point(ratio.value, ends, look, ratio.hollow).draw(axes, upright, at)


def _facts(ratio: Ratio, field: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return facts of contender and baseline, with dots for the value of the sweep's field."""
    first, second = _groups.facts(ratio.contender), _groups.facts(ratio.baseline)
    if first[field] == second.get(field):
        second[field] = "…"
    return first | {field: "…"}, second


def _lines(sheet: _style.Sheet, ratios: Sequence[Ratio], sweep: _sweep.Sweep, looks: dict[str, _style.Look]) -> Figure:
    """Draw ratios over the sweep's field, a line for each variant and contrast."""
    facts = [_facts(x, sweep.field) for x in ratios]
    contrasts = list(dict.fromkeys(_groups.contrast(*x) for x in facts))
    single = len(contrasts) == 1
    drawn = _sweep.drawn(
        {
            key: (_groups.pair_label(*facts[i], sweep.keys, short=single), ratios[i].contender.variant)
            for key, i in sweep.lines.items()
        },
        looks,
    )
    sheet.entries += [*((x.handle(), x.label) for x in drawn.values()), *_signs(ratios)]
    figure = sheet.figure(_sweep.height(sweep, 3.4))
    for axes, facet in zip(_sweep.panels(figure, sweep), sweep.facets, strict=True):
        limits = _frame(axes, ratios, upright=True)
        place = _sweep.along(axes, sweep.field, facet, apart=True)
        for n, line in enumerate(facet.lines):
            points = [(place(x, n), ratios[i]) for x, i in line.points]
            drawn[line.key].plot(axes, [(x, ratio.value) for x, ratio in points])
            for x, ratio in points:
                _point(axes, True, x, ratio, limits, drawn[line.key].look)
        if axes.yaxis.get_tick_params()["labelleft"]:
            axes.set_ylabel(_over(contrasts), fontsize=_style.TEXT)
    return figure


def _over(contrasts: Sequence[tuple[str, str]]) -> str:
    """Return the label of the axis of ratios."""
    names = [PRODUCTS.get(word, word) for word in contrasts[0]]
    first, second = names if len(contrasts) == 1 else ("the first", "the second")
    return _style.shown(f"time of {first}") + "\n" + _style.shown(f"over time of {second}")


def _labels(ratios: Sequence[Ratio], pairs: Sequence[Pair], keys: Sequence[str]) -> tuple[list[str], str]:
    """Return the labels of the comparisons and that of the axis.

    Comparisons across operations name both cases, unless all baselines have one label."""
    both = [side for x in ratios for side in (x.contender, x.baseline)]
    if len({x.op for x in both}) == 1:
        contrasts = list(dict.fromkeys(_groups.contrast(*pair) for pair in pairs))
        labels = [_groups.pair_label(*pair, keys, short=len(contrasts) == 1) for pair in pairs]
        return labels, _over(contrasts).replace("\n", " ")
    by_case = {(x.contest, x.name): x for x in both}
    named = dict(zip(by_case, _groups.case_labels(list(by_case.values())), strict=True))
    contenders = [named[x.contender.contest, x.contender.name] for x in ratios]
    baselines = [named[x.baseline.contest, x.baseline.name].rpartition(": ")[2] for x in ratios]
    if len(set(baselines)) == 1:
        return contenders, _style.shown(f"time over that of {baselines[0]}")
    both_named = [" / ".join(pair) for pair in zip(contenders, baselines, strict=True)]
    return both_named, "time of the first over time of the second"


def _table(sheet: _style.Sheet, ratios: Sequence[Ratio], looks: dict[str, _style.Look]) -> Figure:
    """Draw a row for each comparison, with its figures and its verdict."""
    every = _groups.briefly([side for x in ratios for side in (x.contender, x.baseline)])
    pairs = list(zip(every[::2], every[1::2], strict=True))
    kept, rest = _axes.fewest([-abs(math.log(x.value)) for x in ratios])
    ratios = [ratios[i] for i in kept]
    if rest:
        omitted = f"{len(rest)} more are left out, all within {100 * (math.exp(-min(rest)) - 1):.2g} % of 1."
        sheet.notes.append(f"Shown are the {len(ratios)} ratios furthest from 1; {omitted}")
    keys = _groups.varying(every)
    sheet.entries += _signs(ratios)
    figure = sheet.figure(_axes.rows_height(len(ratios)))
    labels, over = _labels(ratios, [pairs[i] for i in kept], keys)
    axes = _axes.rows(figure, labels, [x.comparison.contest for x in ratios], 60)
    limits = _frame(axes, ratios, upright=False)
    for i, ratio in enumerate(ratios):
        _point(axes, False, i, ratio, limits, looks[ratio.contender.variant])
    shown = [x.comparison for x in ratios]
    _axes.finish_rows(axes, [(units.ratio(x.ratio, x.low, x.high), x.verdict) for x in shown], over)
    return figure
