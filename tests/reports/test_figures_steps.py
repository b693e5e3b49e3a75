"""Pictures of frameworks' steps, fastest first over the floor of the same setting, and of predictions of changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.figure import Figure

from reports.figures import _groups, predictions, steps
from reports.record import Contest, Expected, Prediction, Result, Run, Seconds
from tests.build import case, run
from tests.reports.pictures import SWEEP, one, readable, words
from tests.reports.test_prediction import AFTER, BEFORE, UNKNOWN, environment

PROBLEM = {"network": "fcn-s", "batch": 64, "phase": "step", "division": "default"}
HOSTILE = ("/home/ü/my $k$_1.py:漢字", "x" * 150)


def step(variant: str, seconds: float, system: float = 0.0, **changes: Any) -> Result:
    time = Seconds(seconds, 0.95 * seconds, 1.05 * seconds, 0.95)
    made = case(1, "nn", variant, op="step", problem=PROBLEM, seconds=time, step={"system": system}, heap="default")
    return replace(made, name=f"step/variant:{variant}/{changes}", ceiling="FMA peak", **changes)


def steps_of(*results: Result) -> Run:
    return run(Contest("step/division:default", "which takes longest?", "framework", results, ()))


THREE = steps_of(step("pytorch", 0.6, 0.2), step("kernels-only", 0.25), step("numpy", 0.3))


def test_a_run_without_steps_has_no_picture() -> None:
    assert steps.draw(SWEEP) == [] and steps.draw(run()) == []
    assert steps.draw(steps_of(replace(step("numpy", 0.3), seconds=None, status="skipped", reason="no"))) == []


def test_the_fastest_is_first_and_each_is_over_the_floor() -> None:
    figure = one(steps.draw(THREE))
    (axes,) = figure.axes
    assert [x.get_text() for x in axes.get_yticklabels()] == ["kernels-only", "numpy", "pytorch"]
    told = words(figure)
    assert "A step of fcn-s: from 250 ms in kernels-only to 600 ms in pytorch" in told
    assert "120 % of kernels-only" in told and "240 % of kernels-only" in told
    whole, system = axes.containers[:2]
    assert [bar.get_width() for bar in whole] == [0.25, 0.3, 0.6]
    assert [(bar.get_x(), bar.get_width()) for bar in system][-1] == pytest.approx((0.4, 0.2))
    (bar,) = one(steps.draw(steps_of(step("numpy", 0.1, 0.08, threads=8)))).axes[0].containers[1]
    assert (bar.get_x(), bar.get_width()) == pytest.approx((0.09, 0.01)), "of each of several threads"


def test_networks_phases_and_batches_have_pictures_of_their_own() -> None:
    def contest(**problem: Any) -> Contest:
        told = PROBLEM | problem
        results = tuple(replace(x, problem=told) for x in THREE.contests[0].results)
        name = "/".join(f"{word}:{value}" for word, value in told.items())
        return Contest(f"step/{name}", "which takes longest?", "framework", results, ())

    drawn = steps.draw(run(contest(), contest(phase="forward"), contest(batch=128), contest(network="mine")))
    slugs = ["fcn-s-step-64", "fcn-s-forward-64", "fcn-s-step-128", "mine-step-64"]
    assert [slug for slug, _ in drawn] == slugs
    assert "A forward of fcn-s: from" in words(drawn[1][1])


def test_the_floor_is_that_of_the_same_setting() -> None:
    kept = [replace(step(name, t), heap="keep", name=name) for name, t in (("kernels-only", 0.2), ("numpy", 0.3))]
    told = words(one(steps.draw(steps_of(*THREE.contests[0].results, *kept))))
    assert "150 % of kernels-only" in told and "numpy, heap keep" in told
    tuned = step("numpy", 0.2, problem=PROBLEM | {"division": "tuned"})
    told = words(one(steps.draw(steps_of(*THREE.contests[0].results, tuned))))
    assert "numpy, division tuned" in told and "numpy, division default" in told
    assert "80 % of kernels-only" not in told and "120 % of kernels-only" in told
    without = words(one(steps.draw(steps_of(step("numpy", 0.3)))))
    assert "of kernels-only" not in without and "A step of fcn-s: 300 ms in numpy" in without


def test_changes_of_a_step_are_called_by_their_names_alone() -> None:
    names = ("", "/change:unchanged", "/change:heap-keep", "/change:my%2Fown.py")
    made = steps_of(*(step(f"pytorch{'~b' * (i == 1)}", 0.5 - 0.1 * i, 0.1) for i in range(4)))
    results = tuple(
        replace(x, name=f"step/variant:pytorch{name}", contest="step/changes:a/rounds:10", heap=heap)
        for x, name, heap in zip(
            made.contests[0].results, names, ("default", "default", "keep", "default"), strict=True
        )
    )
    figure = one(steps.draw(steps_of(*results)))
    (axes,) = figure.axes
    told = [x.get_text() for x in axes.get_yticklabels()]
    assert told == ["my/own.py", "heap-keep", "unchanged, once more", "unchanged"]
    assert "A step of fcn-s: from 200 ms with my/own.py to 500 ms unchanged" in words(figure)
    assert _groups.case_labels(results) == told[::-1]


@pytest.mark.parametrize("names", [HOSTILE, tuple(f"framework{i}" for i in range(60))])
def test_no_text_is_cut_or_touches_another(names: tuple[str, ...]) -> None:
    made = steps_of(*(step(name, 0.3 * 1.1**i, 0.1) for i, name in enumerate(names)), step("kernels-only", 0.2))
    readable(one(steps.draw(made)))


def named(change: str, predicted: float | None, measured: float, verdict: str | None) -> Prediction:
    def around(seconds: float) -> Expected:
        return Expected(seconds, seconds - 0.02, seconds + 0.02, 0.9)

    said = None if predicted is None else around(predicted)
    return replace(AFTER, id=change, change=change, predicted=said, measured=around(measured), verdict=verdict)


def drawn(*of: Prediction) -> Figure:
    ((suffix, figure),) = predictions.draw(Run(environment(), predictions=of))
    assert suffix == ""
    figure.canvas.draw()
    return figure


def test_only_what_was_predicted_and_measured_is_a_point() -> None:
    assert predictions.draw(Run(environment(), predictions=(BEFORE, UNKNOWN))) == []
    figure = drawn(AFTER, UNKNOWN, named("threads=2", -0.4, -0.3, "refuted"))
    (axes,) = figure.axes
    points = {
        tuple(round(float(x), 6) for (x,) in line.get_data()) for line in axes.lines if len(line.get_data()[0]) == 1
    }
    assert points == {(-11.0, -10.0), (-30.0, -40.0)}
    assert {text.get_text() for text in axes.texts} == {"heap-keep", "threads=2"}
    assert figure.texts[0].get_text() == "2 changes of a step predicted and made: 1 confirmed, 1 refuted"
    figure = drawn(AFTER, replace(AFTER, id="other", network="large"))
    (axes,) = figure.axes
    assert {text.get_text() for text in axes.texts} == {f"heap-keep, {name} pytorch" for name in ("small", "large")}
    whiskers = {tuple(round(float(x), 6) for x in line.get_xdata()) for line in axes.lines if line.get_zorder() == 2}
    assert whiskers == {(-13.0, -9.0), (-11.0, -11.0)}


def test_of_many_the_refuted_alone_are_named() -> None:
    many = [named(f"isa={i}", -0.01 * i, -0.01 * i, "confirmed") for i in range(1, 12)]
    figure = drawn(*many, named("threads=2", -0.4, -0.1, "refuted"))
    assert [text.get_text() for text in figure.axes[0].texts] == ["threads=2"]
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "symlog"
