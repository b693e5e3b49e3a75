"""Pictures of one program's step and of an attribution: boxes and bars as wide as the record says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from macro.explaining.kinds import KINDS
from reports import attribution, step
from reports.explanation import Bar, Breakdown, Explanation
from reports.figures import _style, waterfall
from reports.figures import step as pictures
from reports.record import Note, Run
from tests.build import run
from tests.explanations import BREAKDOWN, CELLS, breakdown, cell, explanation, module, noted, share
from tests.reports.pictures import SWEEP, one, readable, words

HOSTILE = "/home/ü/my $k$_1.py:漢字 " + "x" * 150


def bars(axes: Axes) -> list[Any]:
    """Row, beginning, width."""
    every: list[Any] = list(axes.patches)
    return [(round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width()) for bar in every]


def colors(axes: Axes) -> list[str]:
    return [to_hex(bar.get_facecolor()).upper() for bar in axes.patches]


def tree(made: Breakdown) -> Axes:
    return one(pictures.draw(noted(made))).axes[0]


def test_what_is_drawn_has_the_records_widths() -> None:
    drawn = bars(tree(BREAKDOWN))
    assert drawn == [
        (0, 0.0, 0.1),
        (1, 0.0, pytest.approx(0.0895)),
        (2, 0.0, pytest.approx(0.06)),
        (3, 0.0, pytest.approx(0.05)),
        (2, pytest.approx(0.06), pytest.approx(0.0295)),
        (3, pytest.approx(0.06), pytest.approx(0.0095)),
        (1, pytest.approx(0.0895), pytest.approx(0.0015)),  # both smaller ones
        (1, pytest.approx(0.091), pytest.approx(0.009)),  # the residual
    ]
    assert sum(width for row, _, width in drawn if row == 1) == pytest.approx(BREAKDOWN.step["a"])
    line: Any = tree(BREAKDOWN).collections[0]
    assert [x for x, _ in line.get_segments()[0]] == pytest.approx(BREAKDOWN.interval)
    paths = {box.module.path for box in pictures.boxes(BREAKDOWN)}
    assert paths == {"net", "net.a", "net.a.x", "net.b", "net.b.y", "2 smaller ones"}  # net.b.z is under 1 %
    assert not pictures.draw(Run(noted().environment))
    assert [name for name, _ in pictures.draw(noted(BREAKDOWN, BREAKDOWN))] == ["train-py", "train-py-b"]


def test_boxes_have_the_color_of_their_kind_and_the_key_names_it() -> None:
    figure = one(pictures.draw(noted(BREAKDOWN)))
    gemm, convolution, copy = (pictures.COLORS[name] for name in ("gemm", "convolution", "copy"))
    assert colors(figure.axes[0])[1:] == [gemm, gemm, gemm, convolution, copy, pictures.OTHER, "#FFFFFF"]
    (key,) = figure.legends
    entries = [x.get_text().strip() for x in key.get_texts()]
    assert entries == ["gemm", "convolution", "copy", "several kinds, or unknown", "residual"]
    assert [to_hex(x.get_color()).upper() for x in key.get_lines()] == [gemm, convolution, copy, pictures.OTHER]


def test_a_residual_below_nothing_is_behind_the_plain_step() -> None:
    less = breakdown(step={"a": 0.085}, residual={"a": -0.006}, interval=(0.084, 0.086))
    drawn = bars(tree(less))
    assert drawn[-1] == (0, 0.085, pytest.approx(0.006)) and tree(less).patches[-1].get_hatch()
    assert sum(width for row, _, width in drawn if row == 0) == pytest.approx(0.091)
    assert sum(width for row, _, width in drawn if row == 1) == pytest.approx(0.091)
    below = one(pictures.draw(noted(less))).axes[1]
    assert bars(below)[-1] == (4, pytest.approx(0.085), pytest.approx(0.006))
    assert below.texts[-1].get_text() == "−6.00 ms, −7 %"


def test_kinds_are_stacked_up_to_the_plain_step() -> None:
    figure = one(pictures.draw(noted(BREAKDOWN)))
    below = figure.axes[1]
    drawn = bars(below)
    assert [width for _, _, width in drawn] == pytest.approx([0.0612, 0.0195, 0.0095, 0.0008, 0.009])
    assert [start for _, start, _ in drawn[1:]] == pytest.approx([x + width for _, x, width in drawn[:-1]])
    assert drawn[-1][1] + drawn[-1][2] == pytest.approx(BREAKDOWN.step["a"])
    names = [x.get_text() for x in below.get_yticklabels()]
    assert names == ["gemm", "convolution", "copy", "data", "residual"]
    assert colors(below)[:4] == [pictures.COLORS[name] for name in names[:4]]
    texts = [x.get_text() for x in below.texts]
    assert texts == ["61.2 ms, 61 %", "19.5 ms, 20 %", "9.50 ms, 9 %", "800 µs, 1 %", "+9.00 ms, 9 %"]
    assert below.get_xlabel() == "ms of a step" and below.get_xlim() == figure.axes[0].get_xlim()


def test_small_kinds_are_one_but_those_that_color_a_box() -> None:
    small = tuple(share(f"kind {i}", 1e-5) for i in range(5))
    made = breakdown(kinds=(*BREAKDOWN.kinds, *small, share("spin", 1e-6)))
    boxes = [pictures.Box(module("net", 0, 0.09, "spin"), 0.0, 0)]
    shown = dict(pictures.kinds(made, boxes))
    assert list(shown) == ["gemm", "convolution", "copy", "data", "spin", "5 others"]
    assert shown["5 others"] == pytest.approx(5e-5)
    assert sum(shown.values()) == pytest.approx(sum(x.a for x in made.kinds))


def test_labels_lie_in_their_boxes_and_the_notes_tell_the_others() -> None:
    long = tuple(module(f"{name}_of_a_long_name", 0, 0.0115, count=3) for name in "pqrstuvw")
    figure = one(pictures.draw(noted(breakdown(modules=long, residual={"a": 0.008}))))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = [bar.get_window_extent() for bar in axes.patches]
    for text in axes.texts:
        seen = text.get_window_extent()
        assert any(box.x0 <= seen.x0 and seen.x1 <= box.x1 and box.y0 <= seen.y0 and seen.y1 <= box.y1 for box in boxes)
    labels = [text.get_text() for text in axes.texts[1:]]
    assert labels[0].startswith("p_of") and labels[0].endswith("…\n11.5 ms")
    assert "Too narrow for name and time: p_of_a_long_name 11.5 ms, q_of" in words(figure).replace("\n", " ")


def test_a_text_is_cut_to_its_room() -> None:
    whole = _style.inches("convolution", 9)
    assert _style.fitted("convolution", whole, 9) == "convolution"
    cut = _style.fitted("convolution", whole / 2, 9)
    assert cut.endswith("…") and "convolution".startswith(cut[:-1]) and _style.inches(cut, 9) <= whole / 2
    assert not _style.fitted("convolution", 0.1, 9)


def test_every_kind_has_a_color_of_its_own() -> None:
    assert {kind.name for kind in KINDS} == set(pictures.COLORS)
    every = {
        name: [int(x[i : i + 2], 16) for i in (1, 3, 5)] for name, x in {**pictures.COLORS, "": pictures.OTHER}.items()
    }
    for (name, a), (other, b) in itertools.combinations(every.items(), 2):
        assert sum(abs(x - y) for x, y in zip(a, b, strict=True)) >= 40, (name, other)
    assert pictures.ink(pictures.COLORS["convolution"]) == "white" != pictures.ink(pictures.COLORS["copy"])


LAYOUTS = {
    "plain": BREAKDOWN,
    "hostile": breakdown(name=HOSTILE, modules=(module(HOSTILE, 0, 0.09), module(f"{HOSTILE}.{HOSTILE}", 1, 0.08))),
    "deep": breakdown(modules=tuple(module(".".join("abcdefghijklmnop"[: i + 1]), i, 0.091) for i in range(12))),
    "many": breakdown(modules=tuple(module(f"layer{i}", 0, 0.091 / 70) for i in range(70))),
    "kinds": breakdown(kinds=tuple(share(f"unknown: {HOSTILE}{i}", 0.091 / 20) for i in range(20))),
    "wide": breakdown(kinds=(share("gemm", 0.091),), interval=(-0.01, 0.3)),
    "nothing": breakdown(modules=(), kinds=(), cells=(), residual={"a": 0.1}),
    "below": breakdown(step={"a": 0.085}, residual={"a": -0.006}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_text_is_cut_or_touches_another(name: str) -> None:
    readable(one(pictures.draw(noted(LAYOUTS[name]))))


def test_the_text_says_what_the_record_says() -> None:
    lines = [line.split() for line in step.text(step.of(noted(BREAKDOWN))[0]).splitlines()]
    assert ["gemm", "61.20", "61%", "[61.20,", "61.20]", "100", "GFLOP/s"] in lines
    assert ["residual", "+9.00", "+9%"] in lines and ["b", "29.50", "29.50", "30%", "convolution"] in lines
    assert lines[-1][0] == "Quality:"
    assert step.of(noted(replace(BREAKDOWN, name="x")))[0].name == "x"


HOSTILE_NAMES = ("/home/ü/my $k$_1.py:漢字", "x" * 150)


def by_cause(*sure: str) -> dict[str, tuple[Bar, ...]]:
    """Of CELLS; certain are those named."""
    return {"cause": tuple(Bar(x.column, x.a, x.b, x.low, x.high, x.column in sure) for x in CELLS)}


def attributed(*explanations: Explanation) -> Run:
    return replace(run(), notes=tuple(map(attribution.note, explanations)))


def ends(axes: Axes) -> list[tuple[float, float]]:
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]  # type: ignore[attr-defined]


def test_without_an_attribution_there_is_no_picture() -> None:
    assert not waterfall.draw(SWEEP)
    assert not waterfall.draw(replace(run(), notes=(Note("answer", {}),)))
    names = [name for name, _ in waterfall.draw(attributed(explanation(), explanation()))]
    assert names == ["net-numpy-pytorch", "net-numpy-pytorch-"]
    seen = words(one(waterfall.draw(attributed(explanation(gap=-0.001, interval=(-0.02, 0.02))))))
    assert "the difference may be chance" in seen.replace("\n", " ") and "accounts for" not in seen


def test_the_bars_lead_from_one_step_to_the_other() -> None:
    figure = one(waterfall.draw(attributed(explanation())))
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
    figure = one(waterfall.draw(attributed(explanation(bars=by_cause(*sure)))))
    assert f"480 ms in pytorch; {says}" in words(figure).replace("\n", " ")
    assert [bar.get_alpha() for bar in figure.axes[0].patches[:3]] == [
        1 if x.column in sure else waterfall.PALE for x in CELLS
    ]
    assert "Pale: the difference may be chance" in words(figure)


def test_smaller_causes_that_cancel_are_zero() -> None:
    cells = [cell(f"r{i}", f"cause {i}", 0.1, 0.2) for i in range(9)]
    cells += [cell("x", "up", 1e-4 + 1e-19, 0.0), cell("y", "down", 0.0, 1e-4)]
    seen = words(one(waterfall.draw(attributed(explanation(cells)))))
    assert "2 smaller causes" in seen and "0 s" in seen.split("\n") and " ns" not in seen and "certain" not in seen


def test_cells_stand_side_by_side_with_the_interval_of_their_difference() -> None:
    axes = one(waterfall.draw(attributed(explanation()))).axes[1]
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
    figure = one(waterfall.draw(attributed(made)))
    labels = [x.get_text() for x in figure.axes[0].get_yticklabels()]
    assert labels[0] == "numpy" and labels[-1] == "pytorch" and labels[-3] == "21 smaller causes"
    assert len(figure.axes[1].get_yticklabels()) == 12
    assert "18 cells that differ less" in words(figure).replace("\n", " ")
    drawn = sum(value for _, value in made.waterfall["cause"][:9])
    assert min(left for left, _ in ends(figure.axes[0])[:9]) == pytest.approx(0.3 - drawn)
    assert 0.48 in [pytest.approx(x) for x in ends(figure.axes[0])[-1]]  # the residual's end


ATTRIBUTIONS = {
    "plain": explanation(),
    "hostile": explanation(a=HOSTILE_NAMES[0], b=HOSTILE_NAMES[1]),
    "no cells": explanation([]),
    "more": explanation(b="numpy", threads=2, runs=5),
    "long": explanation([cell("fc1, fc2, fc3, out update; loss", "unknown: " + HOSTILE_NAMES[1], 0.1, 0.3), *CELLS]),
    "many": explanation([cell(f"layer{i} activation gradient", f"{i}", 0.0, 0.001 * (40 - i)) for i in range(30)]),
    "short": explanation(step={"a": 3e-5, "b": 4.8e-5}, gap=-1.8e-5, interval=(-2e-5, -1e-5)),
}


@pytest.mark.parametrize("name", ATTRIBUTIONS)
def test_no_text_of_an_attribution_is_cut(name: str) -> None:
    readable(one(waterfall.draw(attributed(ATTRIBUTIONS[name]))))


@pytest.mark.parametrize(
    ("scale", "says"), [(1.0, "watched steps, not rescaled"), (0.5, "scaled by 0.50 to the plain")]
)
def test_a_step_whose_rows_are_scaled_has_it_in_its_notes(scale: float, says: str) -> None:
    assert says in words(one(pictures.draw(noted(breakdown(scale=scale))))).replace("\n", " ")


def test_two_scripts_have_no_batch_in_the_title() -> None:
    network, scripts = (one(waterfall.draw(attributed(explanation(batch=x)))) for x in (64, 0))
    assert ", batch 64, takes" in words(network).replace("\n", " ") and "A step takes" in words(scripts)
