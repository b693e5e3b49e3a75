"""What instruction sets and threads bring, together: a row a kernel, a column a set on so many threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.figures import _style
from reports.record import Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIFFERS = "isa and threads"  # contests whose cases this shows
STEP, FRAME = 0.3, 0.75  # inches of a row, and of what is above and below all of them
DARK = 0.62  # of the scale of colors, above which words are white
NOTHING = "–"


@dataclass(frozen=True)
class Row:
    """A kernel's cells by set and threads: how many times as fast as the first; None: no ratio, or not verified."""

    label: str
    gains: dict[tuple[str, int], float | None]


def draw(run: Run) -> list[tuple[str, Figure]]:
    """One picture, where a run has such contests."""
    rows = [row for contest in run.contests if contest.differs == DIFFERS and (row := _row(contest))]
    if not rows:
        return []
    columns = sorted({cell for row in rows for cell in row.gains}, key=lambda cell: (cell[1], _order(rows, cell[0])))
    sheet = _style.Sheet("What do instruction sets and threads bring, together?", [_style.where(run)])
    sheet.notes.append(
        "Times as fast as the same kernel at the first of its cells. A set is asked for in a process of its own and "
        f"verified, by the library's word or by the registers in the code; {NOTHING}: no ratio, or no verified kernel."
    )
    return [("", _picture(sheet, rows, columns))]


def _row(contest: Contest) -> Row | None:
    """By the comparisons' own ratios; nothing where no cell was measured."""
    measured = [x for x in contest.results if x.role == "measured"]
    first, ratios = measured[0], {x.contender: x.ratio for x in contest.comparisons}
    gains = {_cell(x): 1 / ratio if (ratio := ratios.get(x.name)) else None for x in measured}
    if first.seconds is not None:
        gains[_cell(first)] = 1.0
    if not any(gains.values()):
        return None
    title = contest.question.partition(":")[0]
    return Row(f"{title}, {first.variant}" if first.op != "fma" else "multiply-adds in registers", gains)


def _cell(result: Result) -> tuple[str, int]:
    """Its set, of multiply-adds the problem's own, and its threads."""
    own = result.problem.get("isa", result.isa or "own choice")
    return {"sse": "sse4.2"}.get(own, own), result.threads


def _order(rows: list[Row], isa: str) -> int:
    """Of a set in the row that has most of them; others behind."""
    longest = [each for each, _ in max(rows, key=lambda row: len(row.gains)).gains]
    return longest.index(isa) if isa in longest else len(longest)


def _picture(sheet: _style.Sheet, rows: list[Row], columns: list[tuple[str, int]]) -> Figure:
    figure = sheet.figure(STEP * len(rows) + FRAME)
    axes = figure.subplots()
    most = max((gain for row in rows for gain in row.gains.values() if gain), default=1.0)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            _fill(axes, (j, i), row.gains.get(column), most)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xticks(range(len(columns)), [f"{isa}\n{many} thread{'s' * (many > 1)}" for isa, many in columns])
    axes.set_yticks(range(len(rows)), [_style.shown(_style.clipped(row.label, 40)) for row in rows])
    axes.tick_params(length=0, labelsize=_style.SMALL, labelcolor=_style.INK)
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)
    return figure


def _fill(axes: Axes, at: tuple[int, int], gain: float | None, most: float) -> None:
    """A cell, darker the faster, by the logarithm."""
    from math import log

    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    share = max(0.0, log(gain) / log(most)) if gain and most > 1 else 0.0
    color = colormaps["Blues"](0.08 + 0.8 * share) if gain else "white"
    axes.add_patch(Rectangle((at[0] - 0.48, at[1] - 0.46), 0.96, 0.92, facecolor=color, linewidth=0))
    ink = "white" if gain and 0.08 + 0.8 * share > DARK else _style.INK
    text = f"{gain:.3g}" if gain else NOTHING
    axes.text(*at, text, ha="center", va="center", fontsize=_style.SMALL, color=ink)
