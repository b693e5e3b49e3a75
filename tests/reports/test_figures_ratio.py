"""The picture of ratios: the line at 1, the margin, intervals, and what is told of what is not drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.colors import to_hex

from reports.figures import _style, ratio
from reports.record import Contest
from tests.build import case, compared, convolution, run, transposed
from tests.reports.pictures import SWEEP, marks, one, readable, words


def test_ratios_over_a_size() -> None:
    figure = one(ratio.draw(SWEEP))
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [x.get_text() for x in axes.get_xticklabels()] == ["1", "8", "64"]
    low, high = axes.get_ylim()
    assert low < 1 - 0.01 and high > 1.5 * 1.05
    assert [x for x in axes.lines if list(x.get_ydata()) == [1.0, 1.0]]
    (band,) = axes.patches
    assert [band.get_extents().transformed(axes.transData.inverted()).y0] == pytest.approx([0.99])
    told = words(figure)
    assert "Does each variant pay for a transposed operand?" in told
    assert "Some CPU, 1 thread, 2026-11-21" in told and "gemm, N = 8, K = 8" in told
    assert "time of A·Bᵀ (nt)\nover time of A·B (nn)" in told
    assert {"openblas", "mkl"} <= {x.strip() for x in told.splitlines()}


def test_values_of_another_size_get_their_own_panel() -> None:
    def wide(made: Contest) -> Contest:
        results = tuple(replace(x, problem=x.problem | {"k": 99}) for x in made.results)
        return replace(made, contest=made.contest + "/k:99", results=results)

    for sizes in ((1,), (1, 8)):
        more = tuple(wide(transposed(m, variant)) for m in sizes for variant in ("openblas", "mkl"))
        figure = one(ratio.draw(replace(SWEEP, contests=SWEEP.contests + more)))
        assert [x.get_title(loc="left") for x in figure.axes] == ["K = 8", "K = 99"]
        assert len({x.get_ylim() for x in figure.axes}) == 1
        assert [x.yaxis.get_tick_params()["labelleft"] for x in figure.axes] == [True, False]
        assert [x.get_text() for x in figure.axes[1].get_xticklabels()] == [str(m) for m in sizes]
        assert len({x.get_xdata()[0] for mark in "oD" for x in marks(figure.axes[1], mark)}) == 2 * len(sizes)


def test_ratios_that_make_no_line_have_rows() -> None:
    shown = run(transposed(8), transposed(8, "mkl", value=0.5, verdict="faster"))
    figure = one(ratio.draw(shown))
    (axes,) = figure.axes
    assert [x.get_text() for x in axes.get_yticklabels()] == ["openblas", "mkl"]
    top, bottom = (x.get_window_extent().y0 for x in axes.get_yticklabels())
    assert top > bottom
    low, high = axes.get_xlim()
    assert low < 0.475 < 0.5 and high > 1.57
    told = words(figure)
    assert "1.50 [1.42, 1.58]" in told and "0.50 [0.47, 0.53]" in told and "faster" in told


def test_unresolved_is_hollow() -> None:
    known, not_known = transposed(8), transposed(8, "mkl", verdict="unresolved")
    figure = one(ratio.draw(run(known, not_known)))
    faces = {to_hex(x.get_color()): x.get_markerfacecolor() for x in figure.axes[0].lines if x.get_marker() in "oD"}
    looks = _style.looks(run(known, not_known))
    assert faces[looks["mkl"].color.lower()] == "white"
    assert to_hex(faces[looks["openblas"].color.lower()]) == looks["openblas"].color.lower()
    assert "unresolved" in words(figure) and "unresolved" not in words(one(ratio.draw(run(known))))


@pytest.mark.parametrize("low", [None, 1.4])
@pytest.mark.parametrize("high", [None, 1.6])
def test_an_interval_without_end_has_an_arrow(low: float | None, high: float | None) -> None:
    for shown, arrows in (
        (run(transposed(8, low=low, high=high)), "<>"),
        (run(*(transposed(m, low=low, high=high) for m in (1, 8, 64))), "v^"),
    ):
        figure = one(ratio.draw(shown))
        (axes,) = figure.axes
        upright = arrows == "v^"
        lines = [x.get_segments()[0][:, int(upright)] for x in axes.collections if hasattr(x, "get_segments")]
        for i, (end, arrow) in enumerate(zip((low, high), arrows, strict=True)):
            assert len(marks(axes, arrow)) == (0 if end else len(shown.contests))
            edge = (axes.get_ylim() if upright else axes.get_xlim())[i]
            assert [line[i] for line in lines] == [end or edge] * len(shown.contests)
        assert ("interval goes on" in words(figure)) == (low is None or high is None)


def test_margins_work_and_what_has_no_ratio_are_told() -> None:
    shown = run(
        transposed(8, work_ratio=2.0),
        transposed(8, "mkl", margin=0.04),
        transposed(8, "torch", value=None, verdict="not comparable", reason="torch crashes"),
    )
    figure = one(ratio.draw(shown))
    told = words(figure)
    assert "margin ±1 %, 4 %" in told and "ratio of the work" in told
    assert "1 of 3" in told and "torch crashes" in told
    (work,) = marks(figure.axes[0], "x")
    assert list(work.get_xdata()) == [2.0]
    assert len(figure.axes[0].patches) == 2


def test_of_many_ratios_those_near_to_1_are_left_out() -> None:
    shown = run(*(transposed(8, f"v{i}", value=1 + i / 100) for i in range(50)))
    figure = one(ratio.draw(shown))
    labels = [x.get_text() for x in figure.axes[0].get_yticklabels()]
    assert labels == [f"v{i}" for i in range(10, 50)]
    assert "10 more are left out, all within 9 %" in words(figure)
    shown = run(transposed(9, "v0", value=1.0), *(transposed(8, f"v{i}", value=2.0) for i in range(40)))
    (axes,) = one(ratio.draw(shown)).axes
    assert axes.get_yticklabels()[0].get_text() == "v0, M = 8"


def mixed(layer: str, other: str = "forward") -> Contest:
    """A normalization against the convolution before it."""
    name = f"beside/layer:{layer}/variant:c"
    first = replace(convolution(3, "torch", 1e-3, direction=other), contest=name)
    wgrad = replace(convolution(3, "torch", 1e-3, direction="wgrad"), contest=name)
    norm = replace(
        case(8, variant="c", contest=name), op="norm", name="norm/maps:8", problem={"maps": 8, "mode": "train"}
    )
    pairs = tuple(compared(x, first) for x in (wgrad, norm))
    return Contest(name, "what does a normalization cost?", "work: differs (layer)", (first, wgrad, norm), pairs)


def test_cases_of_two_operations_are_named_by_their_contest() -> None:
    figure = one(ratio.draw(run(mixed("conv1"), mixed("conv2"))))
    readable(figure)
    (axes,) = figure.axes
    labels = [x.get_text() for x in axes.get_yticklabels()]
    assert labels[:2] == ["layer conv1: conv torch, direction wgrad", "layer conv1: norm c"]
    assert axes.get_xlabel() == "time over that of conv torch, direction forward"


def test_both_are_named_where_baselines_differ() -> None:
    (axes,) = one(ratio.draw(run(mixed("conv1"), mixed("conv2", "dgrad")))).axes
    labels = [x.get_text() for x in axes.get_yticklabels()]
    assert labels[3] == "layer conv2: norm c / conv torch, direction dgrad"
    assert axes.get_xlabel() == "time of the first over time of the second"


def test_the_axis_holds_the_margin_and_no_interval_that_presses_others_flat() -> None:
    (axes,) = one(ratio.draw(run(transposed(8, value=1.0005, low=1.0004, high=1.0006)))).axes
    assert axes.get_xlim()[0] < 0.99 and axes.get_xlim()[1] > 1.01
    (axes,) = one(ratio.draw(run(transposed(8, low=1.4, high=1.6), transposed(64, low=0.1, high=20.0)))).axes
    assert marks(axes, "<") and marks(axes, ">") and axes.get_xlim()[1] < 3.0
