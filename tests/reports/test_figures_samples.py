"""The picture of samples: what was rejected, the axis of time, which contests are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.figures import samples
from tests.build import case, contest, run, transposed
from tests.reports.pictures import one, texts, words


def test_rejected_samples_are_marked() -> None:
    lost = replace(case(8), rejected=(2, 5))
    figure = one(samples.draw(run(contest(lost, differs="trans"))))
    by_label = {x.get_label(): x for x in figure.axes[0].lines}
    assert list(by_label["rejected"].get_xdata()) == [2, 5]
    assert by_label["rejected"].get_marker() == "x"
    assert list(by_label["accepted"].get_xdata()) == [0, 1, 3, 4, 6, 7, 8, 9]
    assert list(by_label["median"].get_ydata()) == [8e-6, 8e-6]
    assert "rejected" in words(figure) and "rejected" not in words(one(samples.draw(run(transposed(8)))))


def test_a_rejected_sample_does_not_squeeze_the_others() -> None:
    far = tuple(8e-3 if i == 5 else 8e-6 * (1 + i / 100) for i in range(10))
    lost = replace(case(8), samples=far, rejected=(5,))
    axes = one(samples.draw(run(contest(lost, differs="trans")))).axes[0]
    top = axes.get_ylim()[1]
    assert top < 2 * 8e-6
    by_label = {x.get_label(): x for x in axes.lines}
    assert list(by_label["rejected"].get_ydata()) == [top]


def test_cases_of_a_contest_share_the_axis_of_time() -> None:
    made = transposed(8)
    slower = replace(made.results[1], samples=(9e-6,) * 10)
    figure = one(samples.draw(run(replace(made, results=(made.results[0], slower)))))
    assert [x.get_title(loc="left") for x in figure.axes] == ["nn: 8.00 µs", "nt: 8.00 µs"]
    assert len({x.get_ylim() for x in figure.axes}) == 1
    assert figure.axes[0].get_ylabel() == "µs"


@pytest.mark.parametrize("values", [(1e-3,), (1e-3,) * 8, (1e-9, 1.0)])
@pytest.mark.parametrize("rejected", [(), (0,)])
def test_few_and_equal_samples(values: tuple[float, ...], rejected: tuple[int, ...]) -> None:
    few = replace(case(8), samples=values, rounds=(), rejected=rejected)
    figure = one(samples.draw(run(contest(few, differs="trans"))))
    assert sum(len(x.get_xdata()) for x in figure.axes[0].lines if x.get_label() != "median") == len(values)
    assert texts(figure)


def test_the_contests_known_least_are_shown_and_the_others_counted() -> None:
    made = [transposed(m, low=1.5 - m / 100, high=1.5 + m / 100) for m in (1, 2, 3, 4, 5, 6, 7)]
    unknown = transposed(9, kind="other", low=None, high=None)
    told = words(one(samples.draw(run(*made, unknown))))
    assert "6 of 8 contests" in told and "2 are left out: 2 nn-nt" in told
    assert "m:9/" in told and "m:3/" in told
    assert "m:1/" not in told and "m:2/" not in told


def test_of_a_contest_of_many_cases_the_first_are_shown() -> None:
    cases = tuple(case(8, variant=f"v{i}") for i in range(11))
    figure = one(samples.draw(run(contest(*cases))))
    assert len(figure.axes) == 8
    assert "3 are left out" in words(figure)
