"""Pictures of convolutions, of frameworks' steps over their floor, and of predictions of changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.figure import Figure

from kernels.ops.conv.problem import Conv
from reports import record
from reports.figures import _axes, _groups, predictions, regret, roofline, steps
from reports.figures.regret import PASSES
from reports.record import Contest, Expected, Prediction, Result, Run, Seconds
from tests.build import FMA, case, contested, convolution, layer, ranked, run
from tests.reports.pictures import SWEEP, marks, one, readable, words
from tests.reports.test_predictions import AFTER, BEFORE, UNKNOWN, environment

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
    assert ("3 more layers are left out, none above 1.60." in words(figure)) == bool(more)


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
    assert told == ["my/own.py", "heap-keep", "unchanged, control run", "unchanged"]
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
    assert figure.texts[0].get_text() == "2 changes of a step predicted and timed: 1 confirmed, 1 refuted"
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
