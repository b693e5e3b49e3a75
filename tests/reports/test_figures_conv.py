"""Pictures of convolutions: rates under both ceilings, and what a default costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.ops.conv.problem import Conv
from reports import record
from reports.figures import _axes, regret, roofline
from reports.figures.regret import PASSES
from reports.record import Contest
from tests.build import FMA, contested, convolution, layer, ranked, run
from tests.reports.pictures import marks, one, readable, words

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
    assert not roofline.draw(run(contest(fast=8e6))), "equal work"
    assert not roofline.draw(run(replace(whole, results=tuple(x for x in whole.results if x != gone))))


LAYER = Conv(16, 256, 13, 13, 384, 3, 3, pad=1)


def searched(problem: Conv, value: float) -> list[record.Contest]:
    """Ten times torch's, and once again at this ratio; 1: nothing was faster."""
    first = contested("find", problem, {"torch": 10, "direct": 9 if value > 1 else 11})
    if value == 1:
        return [first]
    return [first, ranked("regret", layer(problem, "direct", 1e-2), layer(problem, "torch", value * 1e-2), half=0.05)]


def layers(*values: float) -> record.Run:
    passes = [replace(LAYER, direction=name) for name in PASSES]
    return run(
        *(x for problem, value in zip(passes, values, strict=False) for x in searched(problem, value)),
        *searched(replace(LAYER, c=3, r=11, s=11, stride=4), 3.5),
    )


def test_a_row_a_layer_and_a_mark_a_pass() -> None:
    figure = one(regret.draw(layers(1.4, 1.1, 1)))
    readable(figure)
    (axes,) = figure.axes
    assert [x.get_text() for x in axes.get_yticklabels()] == [
        "11×11, 3→384, 13×13, stride 4, batch 16",
        "3×3, 256→384, 13×13, batch 16",
    ]
    shown = {
        look.marker: [(round(x.get_xdata()[0], 3), x.get_markerfacecolor()) for x in marks(axes, look.marker)]
        for look in PASSES.values()
    }
    assert shown == {"o": [(3.5, "#0072B2"), (1.4, "#0072B2")], "s": [(1.1, "#D55E00")], "^": [(1.0, "white")]}
    told = words(figure)
    assert "default: torch · Some CPU" in told and "1.40 [1.33, 1.47]" in told and "forward, direct" in told
    low, high = axes.get_xlim()
    assert low < 0.99 and high > 1.05 * 3.5


def test_what_was_faster_and_not_measured_again_is_not_drawn() -> None:
    assert regret.draw(run(searched(LAYER, 1.4)[0])) == []
    assert regret.draw(run(contested("algorithms", LAYER, {"torch": 10, "direct": 9}))) == []


@pytest.mark.parametrize("more", [0, 3])
def test_the_largest_are_shown_and_the_others_told(more: int) -> None:
    every = [replace(LAYER, c=i + 1) for i in range(_axes.MOST + more)]
    figure = one(regret.draw(run(*(x for i, problem in enumerate(every) for x in searched(problem, 2 - 0.01 * i)))))
    (axes,) = figure.axes
    assert len(axes.get_yticklabels()) == _axes.MOST
    assert ("3 layers more are left out, none above 1.60." in words(figure)) == bool(more)
