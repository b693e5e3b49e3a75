"""A waterfall from one framework's step to another's, by cause, and the cells that differ most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports import attribution, units
from reports.explanation import Cell, Explanation
from reports.figures import _axes, _groups, _style
from reports.record import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAUSES, CELLS = 9, 12  # most bars; smaller causes are summed, smaller cells left out
LEAST = 0.002  # share of the larger step: smaller differences get no bar
ROW, PAIR = 0.25, 0.4  # inches of a bar, and of a pair of bars
MILLI = 1e-3
COLORS = {"a": "#0072B2", "b": "#D55E00"}
PALE = 0.35  # opacity of a cause or cell whose difference may be chance


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return a picture for each attribution of the run, named after network and frameworks, or both scripts."""
    pictures: dict[str, Figure] = {}
    for explained in attribution.of(run):
        name = slug(explained)
        while name in pictures:
            name += "-"
        pictures[name] = _picture(explained, run)
    return list(pictures.items())


def slug(explained: Explanation) -> str:
    """Return the name of a picture: of two scripts without their ending, else of network and frameworks."""
    sides = f"{explained.a} {explained.b}"
    return _groups.slugged(
        sides.replace(".py", "") if explained.network.endswith(".py") else f"{explained.network} {sides}"
    )


def _picture(explained: Explanation, run: Run) -> Figure:
    cells = _cells(explained)
    rest = len(explained.cells) - len(cells)
    sheet = _style.Sheet(_title(explained), _about(explained, run), notes=_notes(explained, cells, rest))
    bars = _bars(explained)
    heights = [ROW * (len(bars) + 2) + 0.85] + ([PAIR * len(cells) + 0.85] if cells else [])
    figure = sheet.figure(sum(heights))
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _waterfall(panels[0], explained, bars)
    if cells:
        _pairs(panels[1], explained, cells)
    return figure


def _names(explained: Explanation, most: int = 24) -> dict[str, str]:
    names = {side: _style.clipped(explained.name(side), most) for side in "ab"}
    return names if explained.a != explained.b else {"a": f"{names['a']} (A)", "b": f"{names['b']} (B)"}


def _title(explained: Explanation) -> str:
    """Return the title: both steps' times, and the certain cause with the largest share of the gap."""
    names, (low, high) = _names(explained), explained.interval
    a, b = (f"{units.seconds(explained.step[side])} in {names[side]}" for side in "ab")
    of = f" of {explained.network}, batch {explained.batch}," if explained.batch else ""  # scripts have no batch
    title = f"A {explained.phase}{of} takes {a} and {b}"
    if low <= 0 <= high:
        return f"{title}; the difference may be chance"
    certain = [bar for bar in explained.bars["cause"] if bar.sure and bar.gap * explained.gap > 0]
    if not certain:
        return f"{title}; no cause of the difference is certain"
    most = max(certain, key=lambda bar: abs(bar.gap))
    return f"{title}; {_style.clipped(most.name, 34)} accounts for {units.seconds(abs(most.gap))} of the difference"


def _about(explained: Explanation, run: Run) -> list[str]:
    sign = 1 if explained.gap > 0 else -1
    low, high = sorted(sign * x for x in explained.interval)
    more = _names(explained)["a" if explained.gap > 0 else "b"]
    return [
        f"{_range(abs(explained.gap), low, high)} more in {more}, 95 % interval",
        _style.model(run),
        units.counted(explained.threads, "thread"),
        f"{explained.runs} process{'es' * (explained.runs > 1)} of each",
        run.environment.started[:10],
    ]


def _range(value: float, low: float, high: float) -> str:
    """Return `114 ms [107, 123]`, with value and ends in one unit and with equal decimal places."""
    least = max(abs(value), abs(low), abs(high))
    unit, name = next((u for u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")) if least >= u[0]), (1e-9, "ns"))
    places = 2 if least < 10 * unit else 1 if least < 100 * unit else 0
    return f"{value / unit:.{places}f} {name} [{low / unit:.{places}f}, {high / unit:.{places}f}]".replace("-", "−")


def _notes(explained: Explanation, cells: Sequence[Cell], rest: int) -> list[str]:
    notes = [
        "Residual: plain steps minus all cells; nothing is rescaled. A cause is only a candidate saving, "
        "as removing one changes the others."
    ]
    if _doubtful(explained) or any(not cell.sure for cell in cells):
        notes[0] += " Pale: the difference may be chance, all causes and cells tested at once."
    if rest > 0 and cells:
        notes[0] += f" {rest} cells that differ less are not drawn."
    verdicts = [x.verdict for x in explained.agreement]
    words = ("agree", "disagree", "cannot tell")
    if counts := [f"{verdicts.count(word)} {word}" for word in words if word in verdicts]:
        notes.append(f"Rows of at least 5 % of a step, trace against replay: {', '.join(counts)}.")
    return [*notes, *explained.conditions]


def _bars(explained: Explanation) -> list[tuple[str, float]]:
    """Return names and differences A − B in seconds: the largest causes, the sum of others, the residual."""
    least = LEAST * max(explained.step.values())
    bars = list(explained.waterfall["cause"])
    large = [bar for bar in bars if abs(bar[1]) >= least][:CAUSES]
    rest = bars[len(large) :]
    if len(rest) == 1:
        large, rest = bars, []
    rows = [(_style.clipped(name, 34), value) for name, value in large]
    if rest:
        rows.append((f"{len(rest)} smaller causes", sum(value for _, value in rest)))
    return [*rows, ("residual", explained.residual["a"] - explained.residual["b"])]


def _waterfall(axes: Axes, explained: Explanation, bars: Sequence[tuple[str, float]]) -> None:
    """Draw the waterfall from A's step (top) to B's (bottom); bars to the right are more time in B."""
    names, steps = _names(explained), explained.step
    at, places, pale = steps["a"], [steps["a"], steps["b"]], _doubtful(explained)
    for i, (name, value) in enumerate(bars, 1):
        left, right = sorted((at, at - value))
        side = "a" if value > 0 else "b"
        style: dict[str, Any] = (
            {"color": "white", "edgecolor": _style.SOFT, "hatch": "////", "linewidth": 0.8}
            if name == "residual"
            else {"color": COLORS[side], "alpha": PALE if name in pale else 1.0}
        )
        axes.barh([i], [right - left], left=left, height=0.62, zorder=2, **style)
        axes.vlines([at], i - 1 + (0.31 if i > 1 else 0), i - 0.31, color=_style.SOFT, linewidth=0.8)
        _beside(axes, right, i, units.seconds(abs(value)))
        at -= value
        places.append(at)
    last = len(bars) + 1
    axes.vlines([at], last - 0.69, last, color=_style.SOFT, linewidth=0.8)
    for side, row in (("a", 0), ("b", last)):
        _axes.sign(axes, False, row, steps[side], "D", color=COLORS[side], markersize=6)
        _beside(axes, steps[side], row, units.seconds(steps[side]), weight="bold", color=COLORS[side])
    low, high = min(places), max(places)
    span = high - low or 0.1 * high
    start = 0.0 if low < 0.35 * span else low - 0.06 * span
    _scale(axes, (start, high + 0.14 * (high - start)))
    labels = [names["a"], *(name for name, _ in bars), names["b"]]
    _rows(axes, labels)
    for row, side in ((0, "a"), (last, "b")):
        axes.get_yticklabels()[row].set(color=COLORS[side], fontweight="bold")
    words = ("By cause, from one step to the other; more in", _style.INK), ("or in", _style.INK)
    _heading(axes, [words[0], (names["a"], COLORS["a"]), words[1], (names["b"], COLORS["b"])])
    axes.set_xlabel("ms" if start == 0 else "ms; the axis does not begin at 0", fontsize=_style.SMALL)


def _doubtful(explained: Explanation) -> set[str]:
    """Return the names of the causes whose difference may be chance."""
    return {_style.clipped(bar.name, 34) for bar in explained.bars["cause"] if not bar.sure}


def _cells(explained: Explanation) -> list[Cell]:
    least = LEAST * max(explained.step.values())
    large = [cell for cell in explained.cells if abs(cell.a - cell.b) >= least]
    return sorted(large, key=lambda cell: -abs(cell.a - cell.b))[:CELLS]


def _pairs(axes: Axes, explained: Explanation, cells: Sequence[Cell]) -> None:
    """Draw A's bar above B's, and the interval of the difference on the longer bar.

    The interval is measured from the shorter bar's end."""
    names, ends = _names(explained), []
    for i, cell in enumerate(cells):
        alpha = 1.0 if cell.sure else PALE
        for side, offset in (("a", -0.18), ("b", 0.18)):
            axes.barh([i + offset], [cell.seconds(side)], height=0.3, color=COLORS[side], alpha=alpha, zorder=2)
        more, less, offset = ("a", "b", -0.18) if cell.a > cell.b else ("b", "a", 0.18)
        low, high = sorted((cell.low, cell.high) if more == "a" else (-cell.low, -cell.high))
        reach = (max(0.0, cell.seconds(less) + low), max(0.0, cell.seconds(less) + high))
        axes.hlines([i + offset], *reach, color=_style.INK, linewidth=1.2, zorder=3)
        axes.vlines(reach, i + offset - 0.1, i + offset + 0.1, color=_style.INK, linewidth=1.2, zorder=3)
        ends.append(max(cell.seconds(more), *reach))
        _beside(axes, ends[-1], i, _range(abs(cell.a - cell.b), low, high))
    _scale(axes, (0.0, max(ends) * 1.27))
    _rows(axes, [_style.clipped(f"{cell.row} · {cell.column}", 42) for cell in cells])
    axes.set_xlabel("ms; beside the bars the difference and its 95 % interval", fontsize=_style.SMALL)
    words = ("The cells that differ most,", _style.INK), ("above", _style.INK)
    _heading(axes, [words[0], (names["a"], COLORS["a"]), words[1], (names["b"], COLORS["b"])])


def _beside(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    _axes.note(axes, text, (x, y), (6, 0), va="center", annotation_clip=False, **style)


def _scale(axes: Axes, ends: tuple[float, float]) -> None:
    _axes.graduate(axes, False, ends, steep=False, unit=MILLI)
    _axes.quiet(axes)
    axes.grid(axis="x", color=_style.GUIDE, linewidth=0.8)


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    """Label the rows at the left, from top to bottom."""
    _axes.ticks(axes.yaxis, range(len(labels)), [_style.shown(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _heading(axes: Axes, words: Sequence[tuple[str, str]]) -> None:
    """Write (text, color) pairs above the axes, from the sheet's left edge."""
    axes.set_title(" ", fontsize=_style.TEXT)  # makes room for the heading
    place: Any = {"xy": (0.12 / _style.WIDTH, 1), "xytext": (0, 5), "xycoords": ("figure fraction", "axes fraction")}
    for text, color in words:
        style: dict[str, Any] = {
            "fontsize": _style.TEXT,
            "color": color,
            "fontweight": "normal" if color == _style.INK else "bold",
        }
        word = axes.annotate(
            _style.shown(text), **place, **style, textcoords="offset points", va="bottom", annotation_clip=False
        )
        word.set_in_layout(False)
        place = {"xy": (1, 0), "xytext": (4, 0), "xycoords": word}
