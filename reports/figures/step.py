"""One program's step: a flame graph of its modules, and a waterfall of its kinds of work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports import step, units
from reports.explanation import Breakdown, Module
from reports.figures import _axes, _groups, _style
from reports.record import Run

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST = 0.01  # share of the step: narrower boxes are not drawn
ROW, KIND, FRAME = 0.42, 0.25, 0.85  # inches of a level, of a kind, and around either panel
KINDS = 12  # most kinds of work that are listed, beside those that color a box
POINTS = 7.5  # of letters in boxes
PAD = 0.05  # inches of padding in a box
MENTIONED = 8  # boxes without name or time that the notes list
HATCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": _style.SOFT, "hatch": "////", "linewidth": 0.8}
ROWS = "plain step", "modules"
# Colors of kinds of work: mostly cool for arithmetic, warm for data movement, gray for dispatch.
COLORS: dict[str, str] = json.loads(Path(__file__).with_name("step_colors.json").read_bytes())
OTHER = "#D4D4D4"  # several kinds, or an unknown kind
BRIGHT = 0.36  # luminance above which letters are dark


@dataclass(frozen=True)
class Scale:
    """Scale of both axes of time: their length in seconds and in inches."""

    most: float
    wide: float

    def inches(self, seconds: float) -> float:
        return seconds * self.wide / self.most

    def seconds(self, inches: float) -> float:
        return inches * self.most / self.wide


@dataclass(frozen=True)
class Box:
    """The box of a module: its start in seconds and its level in the tree."""

    module: Module
    start: float
    level: int

    @property
    def width(self) -> float:
        """Width in seconds."""
        return self.module.total

    def label(self, scale: Scale) -> str:
        """Return the name with the time below it if both fit, else the name, cut or left out."""
        room, time = scale.inches(self.width) - PAD, units.seconds(self.width)
        name = _style.fitted(self.module.name, room, POINTS)
        return f"{name}\n{time}" if name and _style.inches(time, POINTS) <= room else name


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return a picture for each step of the run, named after its script."""
    pictures: dict[str, Figure] = {}
    for breakdown in step.of(run):
        pictures[slug(breakdown, pictures)] = _picture(breakdown, run)
    return list(pictures.items())


def slug(breakdown: Breakdown, taken: dict[str, Figure]) -> str:
    """Return a file name from the script's name, with a suffix if that name is taken."""
    name = _groups.slugged(breakdown.name, 60)
    while name in taken:
        name += "-b"
    return name


def boxes(breakdown: Breakdown) -> list[Box]:
    """Return the box of each module: behind its previous siblings, within its parent.

    Outermost modules that are too narrow are merged."""
    placed: list[Box] = []
    ends = {0: 0.0}  # of each level, where the next box begins
    for module in breakdown.modules:
        start = ends[module.depth]
        placed.append(Box(module, start, module.depth))
        ends |= {module.depth: start + module.total, module.depth + 1: start}
    least = LEAST * breakdown.step["a"]
    small = [box.width for box in placed if box.level == 0 and box.width < least]
    wide = [box for box in placed if box.width >= least]
    rest = Module(f"{len(small)} smaller ones", 0, 1, {"": sum(small)}, "")
    return [*wide, Box(rest, ends[0] - sum(small), 0)] if small else wide


def kinds(breakdown: Breakdown, drawn: Sequence[Box]) -> list[tuple[str, float]]:
    """Return name and seconds of kinds of work, the largest first, with small kinds summed as others.

    Kinds that color a box keep their entry."""
    large = [x.name for x in breakdown.kinds if x.a >= LEAST / 2 * breakdown.step["a"]][:KINDS]
    named = {*large, *(box.module.column for box in drawn)}
    rest = [x for x in breakdown.kinds if x.name not in named]
    shown = [(x.name, x.a) for x in breakdown.kinds if x.name in named or len(rest) == 1]
    return [*shown, (units.counted(len(rest), "other"), sum(x.a for x in rest))] if len(rest) > 1 else shown


def _picture(breakdown: Breakdown, run: Run) -> Figure:
    from matplotlib.patches import Patch

    placed = boxes(breakdown)
    bars = [*kinds(breakdown, placed), ("residual", breakdown.residual["a"])]
    names = [_style.clipped(name, 30) for name, _ in bars]
    most = 1.02 * max(breakdown.step["a"], breakdown.interval[1], *(box.start + box.width for box in placed))
    room = _style.WIDTH - 0.4 - max(_style.inches(name, _style.SMALL) for name in [*names, *ROWS])
    scale = Scale(most, room)
    levels = 1 + max((box.level for box in placed), default=0)
    order = [name for name, _ in bars]
    colors = sorted((box.module.column for box in placed), key=lambda x: order.index(x) if x in order else len(order))
    sheet = _style.Sheet(_title(breakdown), _about(breakdown, run), key(colors), _notes(breakdown, placed, scale))
    sheet.entries.append((Patch(**HATCHED), "residual"))
    heights = [ROW * (levels + 1) + FRAME, KIND * len(bars) + FRAME]
    figure = sheet.figure(sum(heights))
    tree, below = figure.subplots(2, 1, height_ratios=heights)
    _tree(tree, breakdown, placed, scale)
    _bars(below, breakdown, bars, scale)
    _axes.ticks(below.yaxis, range(len(names)), [_style.shown(name) for name in names])
    for axes, words in ((tree, "By module; below a box are its parts"), (below, "By kind of work, summed up")):
        _frame(axes, breakdown, most, words)
    return figure


def _title(breakdown: Breakdown) -> str:
    title = f"A step of {breakdown.name} takes {units.seconds(breakdown.step['a'])}"
    return (
        f"{title}, {_share(breakdown, breakdown.kinds[0].a)} of it {_style.clipped(breakdown.kinds[0].name, 34)}"
        if breakdown.kinds
        else title
    )


def _share(breakdown: Breakdown, seconds: float) -> str:
    return units.percent(round(100 * seconds / breakdown.step["a"])).replace("-", "−")


def _about(breakdown: Breakdown, run: Run) -> list[str]:
    low, high = (units.seconds(max(0.0, x)) for x in breakdown.interval)
    return [
        f"95 % interval {low} to {high}, within one process",
        _style.model(run),
        units.counted(breakdown.threads, "thread"),
        run.environment.started[:10],
    ]


def _notes(breakdown: Breakdown, placed: Sequence[Box], scale: Scale) -> list[str]:
    scaled = f"scaled by {breakdown.scale:.2f} to the plain step" if breakdown.scale < 1.0 else "not rescaled"
    notes = [
        f"Top bar: the plain step with its interval. Boxes: watched steps, {scaled}, so they and the bar "
        f"differ by the residual, {units.signed(breakdown.residual['a'])}. A box has the color of the kind with "
        "most of its time. Blank below a box: its own time, or boxes under 1 % of the step."
    ]
    bare = sorted((box for box in placed if f"{box.module.name}\n" not in box.label(scale)), key=lambda box: -box.width)
    if bare:
        listed = ", ".join(
            f"{_style.clipped(box.module.path, 48)} {units.seconds(box.width)}" for box in bare[:MENTIONED]
        )
        more = f" and {len(bare) - MENTIONED} more" if len(bare) > MENTIONED else ""
        notes.append(f"Too narrow for name and time: {listed}{more}.")
    return notes


def _tree(axes: Axes, breakdown: Breakdown, placed: Sequence[Box], scale: Scale) -> None:
    """Draw the plain step on top and the modules below it, with the residual at the shorter row's end."""
    total, residual = breakdown.step["a"], breakdown.residual["a"]
    _box(axes, 0, 0.0, total, facecolor=_style.GUIDE, edgecolor=_style.SOFT, linewidth=0.8)
    style: dict[str, Any] = {"fontsize": _style.SMALL, "color": _style.INK, "weight": "bold"}
    axes.text(scale.seconds(PAD), -0.1, units.seconds(total), va="center", **style)
    for box in placed:
        color = kind_color(box.module.column)
        _box(axes, box.level + 1, box.start, box.width, facecolor=color, edgecolor="white", linewidth=0.8)
        if label := box.label(scale):
            middle, row = box.start + box.width / 2, box.level + 1
            style = {"fontsize": POINTS, "color": ink(color), "linespacing": 1.1}
            axes.text(middle, row, _lines(label), ha="center", va="center", **style)
    end = max((box.start + box.width for box in placed if box.level == 0), default=0.0)
    row, start = (1, end) if residual > 0 else (0, total)
    _box(axes, row, start, abs(residual), **HATCHED)
    ends = max(0.0, breakdown.interval[0]), breakdown.interval[1]
    axes.hlines([0.24], *ends, color=_style.INK, linewidth=1.2, zorder=4)
    axes.vlines(ends, 0.16, 0.32, color=_style.INK, linewidth=1.2, zorder=4)
    _axes.ticks(axes.yaxis, range(len(ROWS)), ROWS)
    axes.set_ylim(max((box.level for box in placed), default=0) + 1.55, -0.55)


def _lines(label: str) -> str:
    return "\n".join(map(_style.shown, label.split("\n")))


def _box(axes: Axes, row: int, start: float, width: float, **style: Any) -> None:
    axes.barh([row], [width], left=start, height=0.9, zorder=2, **style)


def _bars(axes: Axes, breakdown: Breakdown, bars: Sequence[tuple[str, float]], scale: Scale) -> None:
    """Draw a waterfall: each bar begins where the previous bar ends; the residual ends at the plain step."""
    at = 0.0
    for i, (name, value) in enumerate(bars):
        last = i == len(bars) - 1
        style = HATCHED if last else {"color": kind_color(name)}
        axes.barh([i], [abs(value)], left=min(at, at + value), height=0.72, zorder=2, **style)
        label = f"{units.signed(value) if last else units.seconds(value)}, {_share(breakdown, value)}"
        _beside(axes, i, sorted((at, at + value)), label, scale)
        at += value
        if not last:
            axes.vlines([at], i + 0.36, i + 0.64, color=_style.SOFT, linewidth=0.8)
    axes.set_ylim(len(bars) - 0.4, -0.6)


def _beside(axes: Axes, row: int, ends: Sequence[float], label: str, scale: Scale) -> None:
    """Write a label right of the bar, left of it, or inside, at the first place with room."""
    room = scale.seconds(_style.inches(label, _style.SMALL) + 0.2)
    at, side = (ends[1], "left") if ends[1] + room <= scale.most else (ends[0], "right")
    if side == "right" and room > ends[0]:
        at, side = ends[1], "right"
    from matplotlib.colors import to_hex

    inside = at == ends[1] and side == "right"
    color = ink(to_hex(axes.patches[-1].get_facecolor())) if inside else _style.INK
    style: dict[str, Any] = {"color": color, "va": "center", "zorder": 5, "ha": side}
    if not inside:
        style["bbox"] = {"facecolor": "white", "linewidth": 0, "pad": 1}
    _axes.note(axes, label, (at, row), (5 if side == "left" else -5, 0), **style)


def _frame(axes: Axes, breakdown: Breakdown, most: float, words: str) -> None:
    """Scale the axis of time, common to both panels, and draw a line at the plain step's end."""
    unit = step.unit_of(breakdown)
    _axes.graduate(axes, False, (0.0, most), steep=False, unit=unit.seconds)
    _axes.quiet(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=_style.GUIDE, linewidth=0.8)
    axes.axvline(breakdown.step["a"], color=_style.SOFT, linewidth=0.9, linestyle=(0, (3, 2)), zorder=1)
    axes.set_xlabel(f"{unit.name} of a step", fontsize=_style.SMALL, color=_style.INK)
    axes.set_title(words, fontsize=_style.TEXT, color=_style.INK, loc="left")


def kind_color(name: str) -> str:
    """Return the color of a kind of work, gray if it is unknown."""
    return COLORS.get(name, OTHER)


def ink(ground: str) -> str:
    """Return the color of letters on a background `#rrggbb`."""
    red, green, blue = (int(ground[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return _style.INK if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > BRIGHT else "white"


def key(names: list[str]) -> list[tuple[Artist, str]]:
    """Return the legend entries: kinds by name, then gray if a box has several kinds or an unknown one."""
    known = [name for name in dict.fromkeys(names) if name in COLORS]
    signs = [(_style.handle(marker="s", markersize=8, color=COLORS[name]), name) for name in known]
    gray = (_style.handle(marker="s", markersize=8, color=OTHER), "several kinds, or unknown")
    return [*signs, gray] if len(known) < len(set(names)) else signs
