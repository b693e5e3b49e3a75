"""Pictures of one program's step: what they draw is what the record says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports import step
from reports.breakdown import Breakdown, Module, Part, Share
from reports.figures import operations
from reports.figures import step as pictures
from reports.record import Environment, Run


def module(path: str, depth: int, seconds: float, column: str = "gemm") -> Module:
    return Module(path, depth, 1, {"forward": seconds}, column)


def part(row: str, seconds: float, work: float | None = None, nbytes: float | None = None) -> Part:
    rate = work / seconds if work else None
    return Part(
        row, row, "forward", "gemm", seconds, seconds, seconds, work, "FLOP", "nominal", rate, None, bytes=nbytes
    )


FOUND = Breakdown(
    name="train.py",
    program={"script": "train.py", "step": "optimizer.step()", "heap": "keep", "framework": "pytorch", "version": "2"},
    threads=1,
    clock="processor and waiting",
    rounds=20,
    seconds=1.0,
    step={"a": 0.1},
    interval=(0.099, 0.101),
    cells=(part("net.a forward", 0.06, 6e9, 6e7), part("net.b forward", 0.03), part("net.c forward", 0.0001, 1e9, 1e7)),
    residual={"a": 0.01},
    kinds=(Share("gemm", 0.06, 0.06, 0.06, 6e9, "FLOP", 1e11), Share("copy", 0.03, 0.03, 0.03, None, "bytes", None)),
    modules=(
        module("net", 0, 0.09),
        module("net.a", 1, 0.06),
        module("net.a.x", 2, 0.05),
        module("net.b", 1, 0.03, "copy"),
        module("net.b.y", 2, 0.02),
        module("(data loader)", 0, 0.0005, "data"),
    ),
    levels={"a": {"P3": 1.02}},
    faults={},
    system={"a": 0.0},
    closure={"a": {}},
    ceilings={"flops": 2e11, "bytes": 2e10},
)


@pytest.fixture
def run() -> Run:
    environment = Environment(
        "d", {"device": {"model": "a CPU"}}, {}, "python -m macro explain train.py", "2026-11-24T10:00"
    )
    return Run(environment, notes=(step.note(FOUND),))


def test_boxes_lie_inside_the_one_above() -> None:
    boxes = {box.module.path: box for box in pictures.boxes(FOUND)}
    assert set(boxes) == {"net", "net.a", "net.a.x", "net.b", "net.b.y"}  # the loader is under a hundredth
    assert boxes["net.b"].start == pytest.approx(0.06) and boxes["net.b.y"].start == pytest.approx(0.06)
    assert [boxes[x].level for x in ("net", "net.a", "net.a.x")] == [0, 1, 2]


def test_the_picture_has_the_records_widths_and_colors(run: Run) -> None:
    ((slug, figure),) = pictures.draw(run)
    tree, bars = figure.axes
    assert slug == "train-py"
    drawn: list[Any] = list(tree.patches)
    widths = [round(x.get_width(), 6) for x in drawn]
    assert widths == [100.0, 90.0, 60.0, 50.0, 30.0, 20.0]
    assert drawn[4].get_facecolor() != drawn[3].get_facecolor()  # copy and gemm
    assert [round(x.get_width(), 6) for x in bars.patches] == [60.0, 30.0]


def test_the_roofline_has_rows_whose_work_is_known(run: Run) -> None:
    ((_, figure),) = operations.draw(run)
    (axes,) = figure.axes
    (points,) = axes.collections
    assert points.get_offsets().tolist() == [[100.0, pytest.approx(100.0)]]
    ceiling = axes.lines[0].get_ydata()
    assert max(ceiling) == pytest.approx(200.0) and axes.lines[0].get_xdata()[1] == pytest.approx(10.0)


def test_points_that_lie_together_share_a_label() -> None:
    cells = [part(name, 0.02, 2e9, 2e7) for name in "abc"]
    assert operations.groups(cells, [100.0, 101.0, 10.0], [100.0, 102.0, 100.0]) == [
        ("a and 1 more", 100.0, 100.0),
        ("c", 10.0, 100.0),
    ]


def test_without_a_ceiling_there_is_no_roofline(run: Run) -> None:
    assert not operations.draw(replace(run, notes=(step.note(replace(FOUND, ceilings={})),)))


def test_the_text_says_what_the_record_says(run: Run) -> None:
    lines = [line.split() for line in step.text(step.of(run)[0]).splitlines()]
    assert ["gemm", "60.00", "60%", "[60.00,", "60.00]", "100", "GFLOP/s"] in lines
    assert ["residual", "+10.00", "+10%"] in lines and ["b", "30.00", "30.00", "30%", "copy"] in lines
    assert lines[-1][0] == "Quality:"
