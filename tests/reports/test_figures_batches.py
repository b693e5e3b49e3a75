"""Steps over the batch: which runs have that picture, and what stands on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reports.figures import batches
from reports.record import Contest, Result, Seconds
from tests.reports.made import case, run


def step(variant: str, batch: int, seconds: float, **problem: Any) -> Result:
    told = {"network": "small", "batch": batch, "phase": "step", "division": "default"} | problem
    timed = Seconds(seconds, 0.9 * seconds, 1.1 * seconds, 0.95)
    made = case(1, "nn", variant, op="step", problem=told, seconds=timed, heap="default")
    return replace(made, name=f"step/batch:{batch}/variant:{variant}", flops_per_second=None)


def drawn(*results: Result) -> list[tuple[str, Any]]:
    return batches.draw(run(Contest("step", "?", "framework", results, ())))


def test_of_several_batches_there_is_one_picture_of_both() -> None:
    results = [step(variant, batch, 1e-3 * batch**0.5) for variant in ("numpy", "pytorch") for batch in (4, 8, 16)]
    ((name, figure),) = drawn(*results)
    assert name == "small-step"
    left, right = figure.axes
    assert (left.get_ylabel(), right.get_ylabel()) == ("ms of a step", "samples a second")
    assert [text.get_text() for text in left.get_xticklabels()] == ["4", "8", "16"]
    lines = [axes.get_lines()[0].get_ydata() for axes in (left, right)]
    assert list(lines[0]) == [2e-3, 1e-3 * 8**0.5, 4e-3]
    assert list(lines[1]) == [4 / 2e-3, 8 / (1e-3 * 8**0.5), 16 / 4e-3]


def test_of_one_batch_there_is_none() -> None:
    assert drawn(step("numpy", 8, 1e-3), step("pytorch", 8, 2e-3)) == []


def test_phases_and_divisions_have_pictures_of_their_own() -> None:
    results = [
        step("numpy", batch, 1e-3, phase=phase, division=division)
        for phase, division in (("step", "default"), ("forward", "default"), ("step", "tuned"))
        for batch in (4, 8)
    ]
    assert [name for name, _ in drawn(*results)] == ["small-step", "small-forward", "small-step-tuned"]


def test_each_number_of_threads_has_axes_of_its_own() -> None:
    """Of a line for each framework, which looks the same in all."""
    results = [
        replace(step(variant, batch, 1e-3 / threads), threads=threads)
        for variant in ("numpy", "pytorch")
        for threads in (1, 2)
        for batch in (4, 8)
    ]
    ((_, figure),) = drawn(*results)
    labels = [axes.get_ylabel() for axes in figure.axes]
    whats = ("ms of a step", "samples a second")
    assert labels == [f"{what}, {many}" for many in ("1 thread", "2 threads") for what in whats]
    lines = [[line for line in axes.get_lines() if len(line.get_xdata()) == 2] for axes in figure.axes]
    assert [len(own) for own in lines] == [2] * 4
    assert [line.get_color() for line in lines[0]] == [line.get_color() for line in lines[2]]
    assert list(lines[2][0].get_ydata()) == [0.5e-3, 0.5e-3]
    ((_, fewer),) = drawn(*[x for x in results if (x.variant, x.threads) != ("pytorch", 2)])
    assert [len([x for x in axes.get_lines() if len(x.get_xdata()) == 2]) for axes in fewer.axes] == [2, 2, 1, 1]
