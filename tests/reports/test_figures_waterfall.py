"""The picture of an attribution: bars that end where B's step does, the largest cells, names of any kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from reports import attribution
from reports.explanation import Bar, Explanation
from reports.figures import waterfall
from reports.record import Note, Run
from tests.build import run
from tests.explanations import CELLS, cell, explanation
from tests.reports.pictures import SWEEP, one, readable, words

HOSTILE = ("/home/ü/my $k$_1.py:漢字", "x" * 150)


def by_cause(*sure: str) -> dict[str, tuple[Bar, ...]]:
    """Of CELLS; certain are those named."""
    return {"cause": tuple(Bar(x.column, x.a, x.b, x.low, x.high, x.column in sure) for x in CELLS)}


def noted(*explanations: Explanation) -> Run:
    return replace(run(), notes=tuple(map(attribution.note, explanations)))


def ends(axes: Axes) -> list[tuple[float, float]]:
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]  # type: ignore[attr-defined]


def test_without_an_attribution_there_is_no_picture() -> None:
    assert not waterfall.draw(SWEEP)
    assert not waterfall.draw(replace(run(), notes=(Note("answer", {}),)))
    names = [name for name, _ in waterfall.draw(noted(explanation(), explanation()))]
    assert names == ["net-numpy-pytorch", "net-numpy-pytorch-"]
    seen = words(one(waterfall.draw(noted(explanation(gap=-0.001, interval=(-0.02, 0.02))))))
    assert "the difference may be chance" in seen.replace("\n", " ") and "accounts for" not in seen


def test_the_bars_lead_from_one_step_to_the_other() -> None:
    figure = one(waterfall.draw(noted(explanation())))
    bars = ends(figure.axes[0])
    assert bars[0] == pytest.approx((0.3, 0.44))  # gemm: B has more
    assert bars[1] == pytest.approx((0.44, 0.47))
    assert bars[2] == pytest.approx((0.46, 0.47))  # element-wise: A has more, back to the left
    assert bars[3] == pytest.approx((0.46, 0.48))  # the residual ends at B's step
    colors = [to_hex(bar.get_facecolor()).upper() for bar in figure.axes[0].patches]
    assert colors == [waterfall.COLORS["b"], waterfall.COLORS["b"], waterfall.COLORS["a"], "#FFFFFF"]
    seen = words(figure)
    assert "takes 300 ms in numpy and 480 ms in pytorch" in seen.replace("\n", " ")
    assert "180 ms [170, 190] more in pytorch" in seen and "residual" in seen
    assert "1 agree, 1 disagree" in seen and "may be chance" in seen


@pytest.mark.parametrize(
    ("sure", "says"),
    [
        (("gemm", "OS memory"), "gemm accounts for 140 ms of the difference"),
        (("OS memory",), "OS memory accounts for 30.0 ms of the difference"),
        (("element-wise",), "no cause of the difference is certain"),  # it makes A slower, and B takes longer
        ((), "no cause of the difference is certain"),
    ],
)
def test_the_title_names_a_cause_that_is_certain(sure: tuple[str, ...], says: str) -> None:
    figure = one(waterfall.draw(noted(explanation(bars=by_cause(*sure)))))
    assert f"480 ms in pytorch; {says}" in words(figure).replace("\n", " ")
    assert [bar.get_alpha() for bar in figure.axes[0].patches[:3]] == [
        1 if x.column in sure else waterfall.PALE for x in CELLS
    ]
    assert "Pale: the difference may be chance" in words(figure)


def test_smaller_causes_that_cancel_are_zero() -> None:
    cells = [cell(f"r{i}", f"cause {i}", 0.1, 0.2) for i in range(9)]
    cells += [cell("x", "up", 1e-4 + 1e-19, 0.0), cell("y", "down", 0.0, 1e-4)]
    seen = words(one(waterfall.draw(noted(explanation(cells)))))
    assert "2 smaller causes" in seen and "0 s" in seen.split("\n") and " ns" not in seen and "certain" not in seen


def test_cells_stand_side_by_side_with_the_interval_of_their_difference() -> None:
    axes = one(waterfall.draw(noted(explanation()))).axes[1]
    assert [x.get_text() for x in axes.get_yticklabels()] == [
        "fc1 forward · gemm",
        "fc1 wgrad · OS memory",
        "fc1 activation · element-wise",
    ]
    assert [right for _, right in ends(axes)[:2]] == pytest.approx([0.1, 0.24])
    (line,) = axes.collections[0].get_segments()  # type: ignore[attr-defined]
    assert [x for x, _ in line] == pytest.approx([0.239, 0.241])
    assert "140 ms [139, 141]" in [x.get_text() for x in axes.texts]
    assert [bar.get_alpha() for bar in axes.patches] == [1, 1, 1, 1, waterfall.PALE, waterfall.PALE]


def test_of_many_causes_and_cells_the_largest_are_drawn() -> None:
    cells = [cell(f"layer{i} forward", f"cause {i}", 0.001 * (40 - i), 0.0) for i in range(30)]
    made = explanation(cells)
    figure = one(waterfall.draw(noted(made)))
    labels = [x.get_text() for x in figure.axes[0].get_yticklabels()]
    assert labels[0] == "numpy" and labels[-1] == "pytorch" and labels[-3] == "21 smaller causes"
    assert len(figure.axes[1].get_yticklabels()) == 12
    assert "18 cells that differ less" in words(figure).replace("\n", " ")
    drawn = sum(value for _, value in made.waterfall["cause"][:9])
    assert min(left for left, _ in ends(figure.axes[0])[:9]) == pytest.approx(0.3 - drawn)
    assert 0.48 in [pytest.approx(x) for x in ends(figure.axes[0])[-1]]  # the residual's end


@pytest.mark.parametrize(
    "made",
    [
        explanation(),
        explanation(a=HOSTILE[0], b=HOSTILE[1]),
        explanation(b="numpy"),
        explanation([]),
        explanation(threads=2, runs=5),
        explanation([cell("fc1, fc2, fc3, out update; loss", "unknown: " + HOSTILE[1], 0.1, 0.3), *CELLS]),
        explanation([cell(f"layer{i} activation gradient", f"cause {i}", 0.0, 0.001 * (40 - i)) for i in range(30)]),
        explanation(step={"a": 3e-5, "b": 4.8e-5}, gap=-1.8e-5, interval=(-2e-5, -1e-5)),
    ],
    ids=["plain", "hostile", "the same", "no cells", "more", "long", "many", "short"],
)
def test_no_text_is_cut_or_touches_another(made: Explanation) -> None:
    readable(one(waterfall.draw(noted(made))))
