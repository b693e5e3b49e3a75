"""One program's step: the tree of its modules as bars, by time, colored by the kind of work; and its kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports import step, units
from reports.breakdown import Breakdown, Module, Share
from reports.figures import _style
from reports.record import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST = 0.01  # of the step: narrower boxes are not drawn
DEEPEST = 6  # levels of modules
ROW, KIND = 0.42, 0.27  # inches of a level, and of a kind
KINDS = 12  # at most
LETTER = 0.075  # inches
MILLI = 1e-3
COLORS = {  # of kinds; what is not here is gray
    "gemm": "#0072B2",
    "convolution": "#1F5FA8",
    "recurrent cell": "#4477AA",
    "attention": "#332288",
    "normalization": "#009E73",
    "pooling": "#44AA99",
    "element-wise": "#56B4E9",
    "reduction": "#88CCEE",
    "softmax and loss": "#117733",
    "embedding": "#999933",
    "optimizer": "#CC79A7",
    "layout reorder": "#D55E00",
    "packing": "#E69F00",
    "copy": "#DDAA33",
    "clear": "#EECC66",
    "random numbers": "#AA4499",
    "OS memory": "#882255",
    "malloc": "#CC6677",
    "dispatch": "#888888",
    "interpreter": "#AAAAAA",
    "data": "#6B4E2E",
    "waiting": "#DDDDDD",
}
OTHER = "#BBBBBB"
DARK = {"#0072B2", "#1F5FA8", "#4477AA", "#332288", "#117733", "#882255", "#AA4499", "#6B4E2E", "#009E73", "#D55E00"}


@dataclass(frozen=True)
class Box:
    """A module: from where to where in seconds, on which level."""

    module: Module
    start: float
    level: int

    @property
    def width(self) -> float:
        """Seconds."""
        return self.module.total


def draw(run: Run) -> list[tuple[str, Figure]]:
    """A picture for each step of the run, named after its script."""
    pictures: dict[str, Figure] = {}
    for found in step.of(run):
        slug = re.sub(r"[^\w+]+", "-", found.name).strip("-").lower()[:60]
        while slug in pictures:
            slug += "-b"
        pictures[slug] = _picture(found, run)
    return list(pictures.items())


def boxes(found: Breakdown) -> list[Box]:
    """Each module from where it begins: behind those before it, inside the one above."""
    placed: list[Box] = []
    ends = {-1: 0.0}  # of each level, where the next box begins
    for module in found.modules:
        if module.depth > DEEPEST:
            continue
        start = ends.setdefault(module.depth, 0.0)
        placed.append(Box(module, start, module.depth))
        ends[module.depth] = start + module.total
        ends[module.depth + 1] = start
    return [box for box in placed if box.width >= LEAST * found.step["a"]]


def _picture(found: Breakdown, run: Run) -> Figure:
    placed, kinds = boxes(found), list(_kinds(found))
    levels = 1 + max((box.level for box in placed), default=0)
    sheet = _style.Sheet(_title(found), _about(found, run), notes=_notes(found))
    heights = [ROW * (levels + 1) + 0.75, KIND * len(kinds) + 0.75]
    figure = sheet.figure(sum(heights))
    tree, bars = figure.subplots(2, 1, height_ratios=heights)
    _tree(tree, found, placed, levels)
    _bars(bars, kinds)
    return figure


def _title(found: Breakdown) -> str:
    share = found.kinds[0]
    step_, part = found.step["a"], share.a / found.step["a"]
    return f"A step of {found.name} takes {units.seconds(step_)}, {part:.0%} of it {share.name}"


def _about(found: Breakdown, run: Run) -> list[str]:
    device = run.environment.facts.get("device")
    model = device.get("model") if isinstance(device, dict) else None
    low, high = found.interval
    return [
        f"95 % interval {units.seconds(low)} to {units.seconds(high)}, within one process",
        str(model or "unknown machine"),
        units.counted(found.threads, "thread"),
        run.environment.started[:10],
    ]


def _notes(found: Breakdown) -> list[str]:
    residual = found.residual["a"]
    return [
        "The bar on top is the plain step, boxes are of watched ones, and nothing is rescaled: they differ by the "
        f"residual, {units.signed(residual)}. A box has the color of the kind that takes most of it; boxes under "
        f"{LEAST:.0%} of the step are not drawn."
    ]


def _tree(axes: Axes, found: Breakdown, placed: Sequence[Box], levels: int) -> None:
    from matplotlib.patches import Rectangle

    whole = max(found.step["a"], sum(box.width for box in placed if box.level == 0)) / MILLI
    inches = (_style.WIDTH - 0.5) / whole
    axes.add_patch(Rectangle((0, 0), found.step["a"] / MILLI, 0.9, facecolor=_style.FAINT, edgecolor="white"))
    axes.text(0, 0.45, f" step {units.seconds(found.step['a'])}", va="center", fontsize=_style.SMALL, color=_style.INK)
    for box in placed:
        color = COLORS.get(box.module.column, OTHER)
        at, width = box.start / MILLI, box.width / MILLI
        axes.add_patch(Rectangle((at, box.level + 1), width, 0.9, facecolor=color, edgecolor="white", linewidth=0.8))
        if label := _label(box, width * inches):
            ink = "white" if color in DARK else _style.INK
            axes.text(at + width / 2, box.level + 1.45, label, ha="center", va="center", fontsize=7.5, color=ink)
    axes.set_xlim(0, whole)
    axes.set_ylim(levels + 1.05, -0.05)
    axes.set_yticks([])
    axes.set_xlabel("ms of a step", fontsize=_style.SMALL, color=_style.SOFT)
    _plain(axes)


def _label(box: Box, inches: float) -> str:
    """Name and time where they fit, else the name, cut or left out."""
    own = box.module
    name = own.path if own.path.startswith("(") or own.depth == 0 else own.path.rpartition(".")[2]
    name += f" ×{own.count}" if own.count > 1 else ""
    room = int(inches / LETTER)
    both = f"{name} {units.seconds(own.total)}"
    if len(both) <= room:
        return _style.shown(both)
    return _style.shown(name if len(name) <= room else name[: room - 1] + "…") if room >= 3 else ""


def _kinds(found: Breakdown) -> Iterator[tuple[str, float]]:
    """Name and milliseconds, the largest first, the others as one."""
    large: list[Share] = [x for x in found.kinds if x.a >= LEAST / 2 * found.step["a"]][:KINDS]
    for share in large:
        yield share.name, share.a / MILLI
    rest = [x for x in found.kinds if x not in large]
    if rest:
        yield units.counted(len(rest), "other"), sum(x.a for x in rest) / MILLI


def _bars(axes: Axes, kinds: Sequence[tuple[str, float]]) -> None:
    names, values = [name for name, _ in kinds], [value for _, value in kinds]
    axes.barh(range(len(kinds)), values, height=0.72, color=[COLORS.get(name, OTHER) for name in names])
    most = max(values, default=1.0)
    for i, value in enumerate(values):
        axes.text(value + most * 0.006, i, units.seconds(value * MILLI), va="center", fontsize=8, color=_style.INK)
    axes.set_yticks(
        range(len(kinds)), [_style.shown(_style.clipped(name, 30)) for name in names], fontsize=_style.SMALL
    )
    axes.set_xlim(0, most * 1.1)
    axes.invert_yaxis()
    axes.set_xlabel("ms of a step, by kind of work", fontsize=_style.SMALL, color=_style.SOFT)
    _plain(axes)


def _plain(axes: Any) -> None:
    """No frame."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False, labelsize=_style.SMALL, colors=_style.SOFT)
