"""The picture of executed work under the ceilings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.figures import roofline
from reports.record import Contest
from tests.reports.made import FMA, convolution, marks, one, readable, run, words

READ = replace(FMA, name="read", op="stream", problem={"size": 4096}, bytes_per_second=1e9, ceiling="read 4 KiB")
PEAK = replace(FMA, ceiling="FMA avx2")


def contest(edge: int = 3, direction: str = "forward", fast: float = 4e6) -> Contest:
    """Sums of 8 MFLOP on 1 MB in 2 ms; and an algorithm that needs fewer operations on more bytes."""
    sums = convolution(edge, "direct", 2e-3, direction=direction)
    other = convolution(edge, "winograd", 2e-3, direction=direction)
    results = (
        replace(sums, work={"flops": 8e6, "bytes": 1e6}),
        replace(other, work={"flops": fast, "bytes": 2e6}, status="contended"),
    )
    return Contest(f"algorithms/conv/r:{edge}/{direction}", "which?", "variant", (*results, PEAK, READ), ())


def test_rates_are_by_executed_work_under_both_ceilings() -> None:
    figure = one(roofline.draw(run(contest())))
    readable(figure)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("FLOP a byte", "GFLOP/s, executed")
    (roof,) = [x for x in axes.lines if len(list(x.get_xdata())) == 3]
    assert list(roof.get_ydata())[1:] == pytest.approx([5e9, 5e9])
    assert list(roof.get_xdata())[1] == pytest.approx(5.0)
    places = [(x.get_xdata()[0], x.get_ydata()[0]) for sign in "sDo^vph<>" for x in marks(axes, sign)]
    assert sorted(places) == [pytest.approx((2.0, 2e9)), pytest.approx((8.0, 4e9))]
    told = words(figure)
    assert "5.00 GFLOP/s" in told and "reads 1.00 GB/s" in told and "3×3, 4→8, 9×9" in told and "contended" in told


def test_a_picture_for_each_pass_and_a_panel_for_each_layer() -> None:
    every = [contest(edge, direction) for direction in ("forward", "dgrad") for edge in (3, 5, 7, 9)]
    drawn = roofline.draw(run(*every))
    assert [name for name, _ in drawn] == ["algorithms-forward", "algorithms-dgrad"]
    for _, figure in drawn:
        readable(figure)
        assert len(figure.axes) == 4


@pytest.mark.parametrize("gone", [PEAK, READ])
def test_without_both_ceilings_there_is_no_roof(gone: object) -> None:
    whole = contest()
    assert not roofline.draw(run(replace(whole, results=tuple(x for x in whole.results if x != gone))))


def test_equal_work_is_no_roofline() -> None:
    assert not roofline.draw(run(contest(fast=8e6)))
