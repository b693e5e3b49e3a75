"""The picture of time over memory: every case, the steps that nothing beats, no bytes at the left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.ops.conv.problem import Conv
from reports import record
from reports.figures import _style, pareto
from tests.micro.conv_runs import contest, result, run
from tests.reports.made import one, readable, words

LAYER = Conv(16, 64, 56, 56, 64, 3, 3, pad=1)
MIB = 1 << 20


def layer(problem: Conv) -> record.Contest:
    held = {"direct": (12, 0), "im2col": (9, 2 * MIB), "winograd-4x3": (5, 8 * MIB), "torch": (10, 24 * MIB)}
    return contest("pareto", *(result(problem, k, 1e-3 * time, held=size) for k, (time, size) in held.items()))


PASSES = run(*(layer(replace(LAYER, direction=name)) for name in ("forward", "dgrad", "wgrad")))


def test_passes_stand_beside_each_other_on_the_same_axes() -> None:
    figure = one(pareto.draw(PASSES))
    readable(figure)
    assert [x.get_title(loc="left") for x in figure.axes] == ["forward", "dgrad", "wgrad"]
    assert len({(x.get_xlim(), x.get_ylim()) for x in figure.axes}) == 1
    assert figure.axes[0].get_ylabel() == "ms"
    assert [x.get_text() for x in figure.axes[0].get_xticklabels()] == ["0", "4 MiB", "16 MiB", "64 MiB"]
    assert "3×3, 64→64, 56×56, batch 16 · Some CPU" in words(figure)


def test_dominated_cases_are_hollow_and_no_step() -> None:
    axes = one(pareto.draw(PASSES)).axes[0]
    looks = _style.looks(PASSES)
    faces = {
        name: x.get_markerfacecolor()
        for name, look in looks.items()
        for x in axes.lines
        if (x.get_marker(), x.get_color()) == (look.marker, look.color)
    }
    assert {name: face == "white" for name, face in faces.items()} == {
        "direct": False,
        "im2col": False,
        "winograd-4x3": False,
        "torch": True,
    }
    (steps,) = (x for x in axes.lines if x.get_drawstyle() == "steps-post")
    nothing, *places, right = steps.get_xdata()
    assert nothing < 2 * MIB / 4 and places == [2 * MIB, 8 * MIB] and right == axes.get_xlim()[1]
    assert list(steps.get_ydata()) == pytest.approx([12e-3, 9e-3, 5e-3, 5e-3])


@pytest.mark.parametrize("held", [0, 300 * MIB])
def test_one_case_alone_is_drawn(held: int) -> None:
    figure = one(pareto.draw(run(contest("pareto", result(LAYER, "direct", 12e-3, held=held)))))
    readable(figure)


def test_every_layer_has_its_picture_and_other_contests_none() -> None:
    pictures = pareto.draw(
        run(layer(LAYER), layer(replace(LAYER, k=32)), contest("steps", result(LAYER, "direct", 1.0)))
    )
    assert [name for name, _ in pictures] == ["1", "2"]
