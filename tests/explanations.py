"""The difference of two steps, and a step taken apart, in which rows, kinds, modules and residual agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reports import step
from reports.explanation import RESIDUAL, Agreement, Bar, Breakdown, Cell, Explanation, Module, Part, Share
from reports.record import Run
from tests import build


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
        Bar(name, *(sum(vars(x)[side] for x in of) for side in ("a", "b", "low", "high")), all(x.sure for x in of))
        for name, of in by_cause.items()
    ]
    residual = (seconds - sum(x.seconds(side) for x in cells) for side, seconds in (("a", 0.3), ("b", 0.48)))
    return *bars, Bar(RESIDUAL, *residual, None, None, False)


def explanation(cells: list[Cell] = CELLS, **changes: Any) -> Explanation:
    """Return 300 ms against 480 ms, of which 20 ms are in no cell."""
    causes: dict[str, float] = {}
    for x in cells:
        causes[x.column] = causes.get(x.column, 0.0) + x.gap
    bars = sorted(causes.items(), key=lambda bar: -abs(bar[1]))
    plain = Explanation(
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
    return replace(plain, **changes)


def module(path: str, depth: int, seconds: float, column: str = "gemm", count: int = 1) -> Module:
    return Module(path, depth, count, {"forward": seconds}, column)


def part(
    row: str, seconds: float, work: float | None = None, nbytes: float | None = None, column: str = "gemm"
) -> Part:
    unit, rate = "FLOP" if column in ("gemm", "convolution") else "bytes", work / seconds if work else None
    return Part(row, row, "forward", column, seconds, seconds, seconds, work, unit, "nominal", rate, None, bytes=nbytes)


def share(name: str, seconds: float, work: float | None = None, unit: str | None = None) -> Share:
    return Share(name, seconds, seconds, seconds, work, unit, work / seconds if work else None)


BREAKDOWN = Breakdown(  # 100 ms, of which 9 ms are in no row
    name="train.py",
    program={"script": "train.py", "step": "optimizer.step()", "heap": "keep", "framework": "pytorch", "version": "2"},
    threads=1,
    clock="processor and waiting",
    rounds=20,
    seconds=1.0,
    step={"a": 0.1},
    interval=(0.097, 0.103),
    cells=(
        part("net.a.x forward", 0.05, 5e9, 5e7),
        part("net.b forward", 0.0195, 2e9, column="convolution"),  # whose bytes are not known
        part("net.a forward", 0.01, 1e9, 5e8),
        part("net.b.y forward", 0.0095, column="copy"),
        part("(data loader) data", 0.0008, column="data"),
        part("net.b.z forward", 0.0005, 5e7, 5e5),
        part("(loss) loss", 0.0007, 7e7, 7e5),  # too small to be drawn
    ),
    residual={"a": 0.009},
    kinds=(
        share("gemm", 0.0612, 6.12e9, "FLOP"),
        share("convolution", 0.0195, 2e9, "FLOP"),
        share("copy", 0.0095),
        share("data", 0.0008),
    ),
    modules=(
        module("net", 0, 0.0895),
        module("net.a", 1, 0.06),
        module("net.a.x", 2, 0.05),
        module("net.b", 1, 0.0295, "convolution"),
        module("net.b.y", 2, 0.0095, "copy"),
        module("net.b.z", 2, 0.0005),
        module("(data loader)", 0, 0.0008, "data"),
        module("(loss)", 0, 0.0007),
    ),
    levels={"a": {"P3": 1.02}},
    faults={},
    system={"a": 0.0},
    closure={"a": {}},
    ceilings={"flops": 2e11, "bytes": 2e10},
)


def noted(*every: Breakdown) -> Run:
    return build.run(notes=tuple(map(step.note, every)))


def breakdown(**changes: Any) -> Breakdown:
    return replace(BREAKDOWN, **changes)
