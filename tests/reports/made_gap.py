"""Explanations of a gap made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reports.explanation import RESIDUAL, Agreement, Bar, Cell, Explanation


def cell(row: str, column: str, a: float, b: float, sure: bool = True) -> Cell:
    return Cell(row, column, a, b, a - b - 1e-3, a - b + 1e-3, None, None, {}, {}, (row,), sure)


CELLS = [
    cell("fc1 forward", "gemm", 0.100, 0.240),
    cell("fc1 wgrad", "OS memory", 0.0, 0.030),
    cell("fc1 activation", "element-wise", 0.020, 0.010, sure=False),
]


def _bars(cells: list[Cell]) -> tuple[Bar, ...]:
    """Return the cells' causes, each certain where its cells are, and the residual."""
    by_cause: dict[str, list[Cell]] = {}
    for x in cells:
        by_cause.setdefault(x.column, []).append(x)
    bars = [
        Bar(
            name,
            sum(x.a for x in of),
            sum(x.b for x in of),
            sum(x.low for x in of),
            sum(x.high for x in of),
            all(x.sure for x in of),
        )
        for name, of in by_cause.items()
    ]
    residual = (seconds - sum(x.seconds(side) for x in cells) for side, seconds in (("a", 0.3), ("b", 0.48)))
    return *bars, Bar(RESIDUAL, *residual, None, None, False)


def told(cells: list[Cell] = CELLS, **changes: Any) -> Explanation:
    """300 ms against 480 ms, of which 20 ms are in no cell."""
    causes: dict[str, float] = {}
    for x in cells:
        causes[x.column] = causes.get(x.column, 0.0) + x.gap
    bars = sorted(causes.items(), key=lambda bar: -abs(bar[1]))
    made = Explanation(
        network="net",
        batch=8,
        phase="step",
        threads=1,
        clock="processor and waiting",
        runs=1,
        seconds=3.0,
        a="numpy",
        b="pytorch",
        step={"a": 0.3, "b": 0.48},
        gap=-0.18,
        interval=(-0.19, -0.17),
        resolution=0.01,
        cells=tuple(cells),
        residual={"a": 0.3 - sum(x.a for x in cells), "b": 0.48 - sum(x.b for x in cells)},
        closure={"a": {}, "b": {}},
        levels={"a": {}, "b": {}},
        agreement=tuple(Agreement("a", "x", 1.0, 1.0, 0.1, x) for x in ("agree", "disagree", "one witness")),
        waterfall={"cause": tuple(bars)},
        faults={},
        system={},
        conditions=("1 process of each",),
        bars={"cause": _bars(cells)},
    )
    return replace(made, **changes)
