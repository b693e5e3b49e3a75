"""Style of all pictures: colors of variants, printable text, the sheet with title and legend."""

from __future__ import annotations

import functools
import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reports.record import Result, Run

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

WIDTH = 9.2  # inches
TITLE, TEXT, SMALL = 13.0, 10.0, 9.0  # points
INK, SOFT, FAINT, GUIDE = "#222222", "#666666", "#dddddd", "#eeeeee"
# Colors after Okabe and Ito, and Tol, for color-blind readers; frequent names have the same color in every run.
FIXED = {
    "openblas": ("#0072B2", "o"),
    "openblas-scipy": ("#56B4E9", "s"),
    "numpy": ("#009E73", "^"),
    "mkl": ("#D55E00", "D"),
    "torch": ("#CC79A7", "v"),
}
OTHERS = ("#E69F00", "#882255", "#332288", "#999933", "#6B4E2E")
LEAST = 3  # least letters before an ellipsis
MARKERS = "sDo^vph<>"  # markers that remain distinct when hollow


@dataclass(frozen=True)
class Look:
    """Color and marker of a variant, the same in all pictures of a run."""

    color: str
    marker: str


def looks(run: Run) -> dict[str, Look]:
    """Return the look of each variant; colors repeat with another marker when they run out."""
    names = dict.fromkeys(result.variant for result in run.measured)
    others = [name for name in names if name not in FIXED]
    free = ((OTHERS[i % len(OTHERS)], MARKERS[i % len(MARKERS)]) for i in range(len(others)))
    return {name: Look(*pair) for name, pair in (FIXED | dict(zip(others, free, strict=True))).items()}


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def shown(text: str) -> str:
    """Return a text safe for matplotlib: `$` escaped, line breaks and missing glyphs replaced."""
    signs = (c if c.isprintable() and ord(c) in _glyphs() else "□" if c.isprintable() else " " for c in text)
    return "".join(signs).replace("$", r"\$")


def clipped(text: str, most: int) -> str:
    """Return the text, with an ellipsis in its middle if it is longer than `most` letters."""
    most = max(most, 5)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


@functools.lru_cache(4096)
def inches(text: str, points: float) -> float:
    """Return the width of one line of text."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), shown(text), size=points).get_extents().width) / 72 if text.strip() else 0.0


def fitted(text: str, room: float, points: float) -> str:
    """Return the text, cut to fit into `room` inches, or an empty text if no beginning fits."""
    if inches(text, points) <= room:
        return text
    cuts = (f"{text[:most].rstrip()}…" for most in range(len(text) - 1, LEAST - 1, -1))
    return next((cut for cut in cuts if inches(cut, points) <= room), "")


def device(run: Run) -> dict[str, Any]:
    """Return the recorded facts of the machine's main device, or no facts."""
    recorded = run.environment.facts.get("device")
    return recorded if isinstance(recorded, dict) else {}


def model(run: Run) -> str:
    return str(device(run).get("model") or "unknown machine")


def where(run: Run) -> str:
    """Return machine, threads and date: `AMD EPYC, 1 thread, 2026-11-21`."""
    threads = sorted({x.threads for x in run.measured if x.seconds} or {x.threads for x in run.measured})
    count = ", ".join(map(str, threads)) + (" thread" if threads == [1] else " threads")
    return ", ".join(filter(None, (model(run), count, run.environment.started[:10])))


@dataclass(frozen=True)
class Lines:
    """Style of lines of text: line spacing in inches, size in points, color."""

    step: float
    points: float
    color: str
    weight: str = "normal"

    def write(self, figure: Figure, top: float, lines: Sequence[str]) -> None:
        """Write lines; `top`: inches from the upper edge to the first line."""
        height = figure.get_figheight()
        for i, line in enumerate(lines):
            figure.text(
                0.12 / WIDTH,
                1 - (top + i * self.step) / height,
                shown(line),
                fontsize=self.points,
                color=self.color,
                weight=self.weight,
                va="top",
                in_layout=False,
            )


HEADLINE = Lines(0.25, TITLE, INK, "bold")
SUBTITLE = Lines(0.19, TEXT, SOFT)
NOTES = Lines(0.18, SMALL, SOFT)


@dataclass
class Sheet:
    """The frame of a picture: title, subtitle, legend, notes."""

    title: str
    about: list[str]
    entries: list[tuple[Artist, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def _lines(self) -> list[str]:
        return [line for note in self.notes for line in textwrap.wrap(note, 128, break_on_hyphens=False)]

    @property
    def below(self) -> float:
        """Height of the notes in inches."""
        return 0.08 + 0.18 * len(self._lines)

    def figure(self, body: float) -> Figure:
        """Return a figure with head, notes, and room for axes of `body` inches in height between them."""
        from matplotlib.figure import Figure

        title = textwrap.wrap(self.title, 74) or [""]
        subtitle = _packed(self.about)
        columns, rows = _flow([min(len(label), 60) for _, label in self.entries])
        heights = 0.12 + 0.25 * len(title), 0.19 * len(subtitle), 0.2 * rows
        top, bottom = sum(heights) + 0.08, self.below
        height = top + body + bottom
        figure = Figure(figsize=(WIDTH, height), facecolor="white")
        HEADLINE.write(figure, 0.12, title)
        SUBTITLE.write(figure, heights[0], subtitle)
        NOTES.write(figure, top + body + 0.02, self._lines)
        if self.entries:
            # The space before a label: matplotlib 3.9 leaves out labels that begin with an underscore.
            corner = 0.08 / WIDTH, 1 - (heights[0] + heights[1] + 0.02) / height
            figure.legend(
                [sign for sign, _ in self.entries],
                [" " + shown(clipped(label, 60)) for _, label in self.entries],
                loc="upper left",
                bbox_to_anchor=corner,
                ncols=columns,
                fontsize=SMALL,
                frameon=False,
                borderpad=0.2,
                borderaxespad=0.0,
                handletextpad=0.3,
                columnspacing=1.4,
                labelspacing=0.4,
            )
        figure.set_layout_engine("constrained", rect=(0.005, bottom / height, 0.99, body / height))
        return figure


def _packed(parts: Sequence[str]) -> list[str]:
    """Join parts into lines, broken between parts unless a part is longer than a line."""
    lines: list[str] = []
    for part in filter(None, parts):
        if lines and len(lines[-1]) + len(part) <= 115:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(part, 118)
    return lines


def _flow(lengths: Sequence[int]) -> tuple[int, int]:
    """Return the columns and rows of the legend: as many columns as fit beside each other.

    Columns are filled downwards. `lengths`: letters of each label."""
    for rows in range(1, len(lengths)):
        columns = math.ceil(len(lengths) / rows)
        least, more = divmod(len(lengths), columns)  # matplotlib gives the first ones an entry more
        ends = [i * least + min(i, more) for i in range(columns + 1)]
        widths = [0.078 * max(lengths[i:j]) + 0.62 for i, j in itertools.pairwise(ends)]
        if sum(widths) <= WIDTH - 0.2:
            return columns, least + bool(more)
    return 1, len(lengths)


def handle(**style: Any) -> Artist:
    """Return a marker for the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "none", "markersize": 6, **style})


def doubts(results: Iterable[Result]) -> list[tuple[Artist, str]]:
    """Return the legend entry of hollow markers, if any result's status is not `ok`."""
    statuses = ", ".join(sorted({x.status for x in results} - {"ok"}))
    return [(handle(color=SOFT, marker="o", markerfacecolor="white"), statuses)] if statuses else []
