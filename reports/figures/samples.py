"""Samples in the order taken, of the contests with the widest intervals: drift, outliers, rejections."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports import units
from reports.figures import _axes, _groups, _style
from reports.record import Comparison, Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 6  # contests of one picture
ABREAST, CASES = 4, 8  # cases beside each other, and of a contest
HEAD, PANEL, FOOT = 0.25, 1.15, 0.3  # inches: a contest's heading; a row of panels; under it
LEFT, RIGHT, BETWEEN = 0.72, 0.12, 0.14  # inches
STEEP = 4  # from this ratio of largest to smallest on the axis is logarithmic
PREFIXES = {1.0: "s", 1e-3: "ms", 1e-6: "µs", 1e-9: "ns"}


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return one picture of the six contests whose intervals are widest relative to their targets."""
    contests = [contest for contest in run.contests if cases(contest)]
    if not contests:
        return []
    chosen = sorted(contests, key=lambda contest: -width(contest))[:MOST]
    looks = _style.looks(run)
    sheet = _style.Sheet(
        "Samples in the order measured: time of one use, round by round", [_style.where(run)], _signs(chosen)
    )
    rest = Counter(contest.contest.partition("/")[0] for contest in contests if contest not in chosen)
    if rest:
        kinds = _style.clipped(", ".join(f"{count} {kind}" for kind, count in rest.items()), 180)
        sheet.notes.append(
            f"Shown are the {MOST} of {len(contests)} contests whose ratio has the widest interval for its target; "
            f"{sum(rest.values())} are left out: {kinds}."
        )
    more = sum(max(0, len(cases(contest)) - CASES) for contest in chosen)
    if more:
        sheet.notes.append(f"Shown are the first {CASES} cases of a contest; {more} are left out.")
    counts = [min(CASES, len(cases(contest))) for contest in chosen]
    heights = [HEAD + math.ceil(count / ABREAST) * _step(count) for count in counts]
    figure = sheet.figure(sum(heights))
    figure.set_layout_engine("none")
    edge = sheet.below + sum(heights)
    for contest, height in zip(chosen, heights, strict=True):
        _contest(figure, edge, contest, looks)
        edge -= height
    return [("", figure)]


def cases(contest: Contest) -> list[Result]:
    return [x for x in contest.measured if x.samples and x.seconds]


def _step(count: int) -> float:
    """Return the height in inches of a row of panels, with titles of two lines in narrow panels."""
    return PANEL + FOOT + (0.2 if count <= 2 else 0.35)


def widest(contest: Contest) -> Comparison | None:
    """Return the comparison whose interval is widest relative to its target, or None without ratios."""
    return max((x for x in contest.comparisons if x.ratio), key=_share, default=None)


def width(contest: Contest) -> float:
    compared = widest(contest)
    return _share(compared) if compared else 0.0


def _share(x: Comparison) -> float:
    if x.ratio is None or x.low is None or x.high is None or not x.target:
        return math.inf
    return (x.high - x.low) / 2 / x.ratio / x.target


def _signs(contests: Sequence[Contest]) -> list[tuple[Any, str]]:
    entries: list[tuple[Any, str]] = [
        (_style.handle(color=_style.SOFT, marker="o", markersize=4), "a sample"),
        (_style.handle(color=_style.INK, linestyle="-", linewidth=1.2), "median of accepted rounds"),
    ]
    if any(x.rejected for contest in contests for x in cases(contest)):
        sign = _style.handle(color=_style.INK, marker="x")
        entries.append((sign, "rejected: lost time to other processes (at the edge: off scale)"))
    return entries


def _contest(figure: Figure, edge: float, contest: Contest, looks: dict[str, _style.Look]) -> None:
    """Draw a panel for each case, with a common axis of time. `edge`: top in inches from the bottom."""
    wide, high = figure.get_size_inches()
    shown, interval = cases(contest)[:CASES], _widest(contest)
    name = _style.clipped(contest.contest, 94 - round(0.78 * len(interval)))
    for x, text, side, weight in ((0.12, name, "left", "bold"), (wide - RIGHT, interval, "right", "normal")):
        place = x / wide, (edge - 0.02) / high
        figure.text(*place, _style.shown(text), va="top", ha=side, weight=weight, fontsize=_style.TEXT)
    facts = [_groups.facts(x) for x in shown]
    keys = _groups.varying(facts) or ["variant"]
    columns = min(ABREAST, len(shown))
    width = (wide - LEFT - RIGHT - BETWEEN * (columns - 1)) / columns
    for i, (result, case) in enumerate(zip(shown, facts, strict=True)):
        row, column = divmod(i, columns)
        bottom = edge - HEAD - (row + 1) * _step(len(shown)) + FOOT
        left = LEFT + column * (width + BETWEEN)
        axes = figure.add_axes((left / wide, bottom / high, width / wide, PANEL / high))
        label = _style.shown(_style.clipped(_groups.case_label(case, keys), int(width / 0.08)))
        _times(axes, shown)
        _panel(axes, result, label + (": " if columns <= 2 else "\n"), looks[result.variant].color)
        axes.yaxis.set_label_coords(-0.52 / width, 0.5)
        axes.tick_params(labelleft=column == 0)
        axes.yaxis.label.set_visible(column == 0)


def _widest(contest: Contest) -> str:
    """Return the widest comparison in words."""
    compared = widest(contest)
    if not compared:
        return ""
    names = {x.name: _groups.facts(x) for x in contest.results}
    both = " / ".join(_groups.contrast(names[compared.contender], names[compared.baseline]))
    pair = f"{_style.clipped(both, 44)}: " if len(contest.comparisons) > 1 else ""
    return f"{pair}{units.ratio(compared.ratio, compared.low, compared.high)}, target ±{100 * compared.target:g} %"


def _panel(axes: Axes, result: Result, label: str, color: str) -> None:
    from matplotlib.ticker import MaxNLocator

    assert result.seconds is not None
    points, lost = _points(result), set(result.rejected)
    first, last, top = points[0][0], points[-1][0], axes.get_ylim()[1]
    accepted: Any = {"marker": "o", "color": color, "markersize": 3.4 if len(points) <= 150 else 2.4}
    rejected: Any = {"marker": "x", "color": _style.INK, "markersize": 5.0}
    for name, style in (("accepted", accepted | {"markeredgewidth": 0, "alpha": 0.75}), ("rejected", rejected)):
        chosen = [(x, min(y, top)) for x, y in points if (x in lost) == (name == "rejected")]
        x, y = [x for x, _ in chosen], [y for _, y in chosen]
        axes.plot(x, y, linestyle="none", clip_on=False, label=name, **style)
    axes.axhline(result.seconds.median, color=_style.INK, linewidth=1.0, label="median")
    axes.set_title(label + units.seconds(result.seconds.median), fontsize=_style.SMALL, loc="left")
    pad = max(0.5, 0.03 * (last - first))
    axes.set_xlim(first - pad, last + pad)
    numbers = MaxNLocator(6, integer=True, min_n_ticks=1).tick_values(first, last)
    rounds = [x for x in numbers if first <= x <= last]
    _axes.ticks(axes.xaxis, rounds, [f"{x:.0f}" for x in rounds])
    _axes.quiet(axes)


def _points(result: Result) -> list[tuple[int, float]]:
    """Return (round, seconds) pairs of a result's samples."""
    rounds = result.rounds or tuple(range(len(result.samples)))
    return list(zip(rounds, result.samples, strict=False))


def _times(axes: Axes, results: Sequence[Result]) -> None:
    """Scale the axis of time that a contest's panels share.

    It covers rejected samples up to one range of the accepted samples above the slowest of these."""
    lost = [y for x in results for number, y in _points(x) if number in x.rejected]
    kept = [y for x in results for number, y in _points(x) if number not in x.rejected] or lost
    reach = 2 * max(kept) - min(kept) if max(kept) > min(kept) else 2 * max(kept)
    low, high = min((*kept, *lost)), max((*kept, *(min(y, reach) for y in lost)))
    unit = next((unit for unit in PREFIXES if unit <= high), 1e-9)
    steep = high > STEEP * low > 0
    pad = 0.06 * (high - low) or 0.05 * high
    ends = (low / 1.15, high * 1.15) if steep else (low - pad, high + pad)
    _axes.graduate(axes, True, ends, steep, unit, count=4)
    axes.set_ylabel(PREFIXES[unit], fontsize=_style.SMALL)
