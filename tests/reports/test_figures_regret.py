"""The picture of regret: a row a layer, a mark a pass, hollow where nothing was faster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.ops.conv.problem import Conv
from reports import record
from reports.figures import _rows, regret
from reports.figures.regret import PASSES
from tests.micro.conv_runs import contest, contested, result, run
from tests.reports.made import marks, one, readable, words

LAYER = Conv(16, 256, 13, 13, 384, 3, 3, pad=1)


def searched(problem: Conv, value: float) -> list[record.Contest]:
    """Ten times torch's, and once again at this ratio; 1: nothing was faster."""
    first = contested("find", problem, {"torch": 10, "direct": 9 if value > 1 else 11})
    if value == 1:
        return [first]
    return [
        first,
        contest("regret", result(problem, "direct", 1e-2), result(problem, "torch", value * 1e-2), half=0.05),
    ]


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
    every = [replace(LAYER, c=i + 1) for i in range(_rows.MOST + more)]
    figure = one(regret.draw(run(*(x for i, problem in enumerate(every) for x in searched(problem, 2 - 0.01 * i)))))
    (axes,) = figure.axes
    assert len(axes.get_yticklabels()) == _rows.MOST
    assert ("3 layers more are left out, none above 1.60." in words(figure)) == bool(more)
