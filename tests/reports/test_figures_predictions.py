"""The picture of predictions: which are drawn, and where."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from reports.figures import predictions
from reports.record import Expected, Prediction, Run
from tests.reports.test_prediction import AFTER, BEFORE, UNKNOWN, environment


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


def test_of_many_the_refuted_alone_are_named() -> None:
    many = [named(f"isa={i}", -0.01 * i, -0.01 * i, "confirmed") for i in range(1, 12)]
    figure = drawn(*many, named("threads=2", -0.4, -0.1, "refuted"))
    assert [text.get_text() for text in figure.axes[0].texts] == ["threads=2"]
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "symlog"


def test_of_several_steps_it_is_said_whose_change_it_was() -> None:
    figure = drawn(AFTER, replace(AFTER, id="other", network="large"))
    assert {text.get_text() for text in figure.axes[0].texts} == {
        "heap-keep, small pytorch",
        "heap-keep, large pytorch",
    }


def test_whiskers_are_the_intervals() -> None:
    (axes,) = drawn(AFTER).axes
    ends = {tuple(round(float(x), 6) for x in line.get_xdata()) for line in axes.lines if line.get_zorder() == 2}
    assert ends == {(-13.0, -9.0), (-11.0, -11.0)}
