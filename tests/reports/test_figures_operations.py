"""The roofline of one program's step: points and ceilings are those of the record."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from reports.breakdown import Breakdown
from reports.figures import _kinds, operations
from tests.reports.made import one, readable, words
from tests.reports.made_step import FOUND, found, noted, part

LONG = "model.encoder.layers.11.attention.output.dense.projection $x$ 漢字 backward"


def axes(made: Breakdown) -> Axes:
    return one(operations.draw(noted(made))).axes[0]


def lines(made: Breakdown) -> dict[str, list[Any]]:
    """The ceilings drawn, by name."""
    return {str(x.get_label()): list(map(tuple, x.get_xydata())) for x in axes(made).lines}


def crossed(a: tuple[float, float], up: float, b: tuple[float, float], down: float) -> bool:
    """Whether the lines from two points to heights at 1 cross."""

    def side(p: tuple[float, float], q: tuple[float, float], r: tuple[float, float]) -> bool:
        return (q[0] - p[0]) * (r[1] - p[1]) > (q[1] - p[1]) * (r[0] - p[0])

    c, d = (1.0, up), (1.0, down)
    return side(a, c, b) != side(a, c, d) and side(b, d, a) != side(b, d, c)


def test_points_are_rows_whose_flop_and_bytes_are_known() -> None:
    points: Any = axes(FOUND).collections[0]
    assert points.get_offsets().tolist() == [[pytest.approx(100), pytest.approx(1e11)], [pytest.approx(2), 1e11]]
    assert [to_hex(x).upper() for x in points.get_facecolors()] == 2 * [_kinds.COLORS["gemm"]]
    assert points.get_sizes()[0] > points.get_sizes()[1]  # net.a.x takes longer


def test_points_have_the_color_of_their_kind() -> None:
    cells = part("a", 0.02, 2e9, 2e7), part("b", 0.01, 1e9, 1e7, column="convolution")
    points: Any = axes(found(cells=cells)).collections[0]
    assert [to_hex(x).upper() for x in points.get_facecolors()] == [_kinds.COLORS["gemm"], _kinds.COLORS["convolution"]]


def test_both_ceilings_meet_at_their_knee() -> None:
    drawn = lines(FOUND)
    assert drawn["flops"][0] == drawn["bytes"][1] == (pytest.approx(10), pytest.approx(2e11))
    assert {y for _, y in drawn["flops"]} == {2e11}
    assert all(y / x == pytest.approx(2e10) for x, y in drawn["bytes"])
    seen = words(one(operations.draw(noted(FOUND))))
    assert "200 GFLOP/s" in seen and "memory 20.0 GB/s" in seen and "gemm reaches 100 GFLOP/s, 50 % of" in seen


def test_the_roof_is_that_of_the_type() -> None:
    cell = replace(part("net forward", 0.01, 3e9, 3e7), dtype="bfloat16")
    made = found(cells=(cell,), ceilings={**FOUND.ceilings, "flops_bf16": 4e11})
    assert {y for _, y in lines(made)["flops"]} == {4e11}
    seen = words(one(operations.draw(noted(made))))
    assert "75 % of the ceiling" in seen and "multiply-adds in bfloat16" in seen


@pytest.mark.parametrize(("known", "missing"), [("flops", "memory"), ("bytes", "multiply-adds")])
def test_one_ceiling_is_drawn_alone(known: str, missing: str) -> None:
    made = found(ceilings={known: FOUND.ceilings[known]})
    assert list(lines(made)) == [known]
    assert ("memory 20.0 GB/s" if known == "bytes" else "200 GFLOP/s") in words(one(operations.draw(noted(made))))
    assert lines(made)[known][1][1] <= axes(made).get_ylim()[1] * (1 + 1e-9)
    assert f"Not known here: the ceiling of {missing}." in words(one(operations.draw(noted(made))))


def test_without_a_ceiling_or_a_point_there_is_no_roofline() -> None:
    assert not operations.draw(noted(found(ceilings={})))
    assert not operations.draw(noted(found(cells=tuple(replace(x, bytes=None) for x in FOUND.cells))))
    assert len(operations.draw(noted(FOUND, FOUND))) == 2


def test_what_is_above_a_ceiling_is_in_the_picture() -> None:
    drawn = axes(found(cells=(part("net forward", 0.01, 5e9, 5e7),)))  # 500 GFLOP/s
    assert drawn.get_ylim()[1] > 5e11


def test_the_largest_eight_have_names() -> None:
    cells = tuple(part(f"row{i}", 0.02 - 0.001 * i, 2e9, 2e7) for i in range(10))
    named = {x.get_text() for x in axes(found(cells=cells)).texts}
    assert {x for x in named if x.startswith("row")} == {f"row{i}, {20 - i} %" for i in range(8)}


def test_heights_are_spread_between_both_ends() -> None:
    for heights in ([0.5] * 4, [0.0, 0.01, 0.9], [0.97, 0.98, 0.99], [0.1, 0.5, 0.9]):
        moved = operations.spread(heights, 0.1, 0.0, 1.0)
        assert all(b - a >= 0.1 - 1e-9 for a, b in itertools.pairwise(moved))
        assert min(moved) >= -1e-9 and max(moved) <= 1 + 1e-9
    assert operations.spread([0.1, 0.5, 0.9], 0.1, 0, 1) == pytest.approx([0.1, 0.5, 0.9])
    assert operations.spread([0.5, 0.5, 0.5], 0.1, 0, 1) == pytest.approx([0.4, 0.5, 0.6])


def test_no_two_lines_to_labels_cross() -> None:
    ends = [(0.3, 0.40), (0.8, 0.41), (0.3, 0.42), (0.8, 0.43), (0.3, 0.44), (0.8, 0.45)]
    heights = operations.spread([y for _, y in ends], 0.1, 0.0, 1.0)
    assert any(crossed(ends[i], heights[i], ends[j], heights[j]) for i, j in itertools.combinations(range(6), 2))
    chosen = operations.untangled(ends, heights)
    assert sorted(chosen) == sorted(heights)
    assert not any(crossed(ends[i], chosen[i], ends[j], chosen[j]) for i, j in itertools.combinations(range(6), 2))


@pytest.mark.parametrize(
    "made",
    [
        FOUND,
        found(cells=tuple(part(f"{LONG} {i}", 0.011, 2e9, 2e7) for i in range(12))),
        found(cells=(part("net forward", 0.01, 1e5, 1e5),)),
        found(cells=(part("net forward", 0.01, 1e12, 1e6),)),
        found(ceilings={"bytes": 2e10}),
        found(ceilings={"flops": 2e11}),
    ],
    ids=["plain", "alike", "slow", "fast", "memory alone", "multiply-adds alone"],
)
def test_no_text_is_cut_or_touches_another(made: Breakdown) -> None:
    readable(one(operations.draw(noted(made))))
