"""The picture of times by the size of a filter."""

from __future__ import annotations

import pytest

from reports.figures import filters
from reports.record import Contest
from tests.reports.made import convolution, one, readable, run, words


def contest(edge: int, direction: str = "forward", pad: int | None = None) -> Contest:
    """A direct kernel that takes longer with the filter, and one that does not."""
    changes = {"direction": direction, "pad": edge // 2 if pad is None else pad}
    name = f"fft/conv/r:{edge}/direction:{direction}"
    results = (convolution(edge, "direct", 1e-3 * edge**2, **changes), convolution(edge, "fft", 3e-2, **changes))
    return Contest(name, "from which size on?", "variant", results, ())


def test_a_line_for_each_kernel_over_the_filters_size() -> None:
    figure = one(filters.draw(run(*(contest(edge) for edge in (3, 5, 7)))))
    readable(figure)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "rows and columns of the filter"
    assert [x.get_text() for x in axes.get_xticklabels()] == ["3", "5", "7"]
    lines = [list(x.get_ydata()) for x in axes.lines if len(list(x.get_ydata())) == 3]
    assert lines == [pytest.approx([9e-3, 25e-3, 49e-3]), pytest.approx([3e-2] * 3)]
    assert {"direct", "fft"} <= {x.strip() for x in words(figure).splitlines()}
    ends = [line.get_segments()[0][:, 1].tolist() for line in axes.collections]
    assert [pytest.approx([0.9 * x, 1.1 * x]) for x in (9e-3, 25e-3, 49e-3)] == ends[:3]


def test_a_picture_for_each_pass() -> None:
    every = [contest(edge, direction) for direction in ("forward", "wgrad") for edge in (3, 5, 7)]
    assert [name for name, _ in filters.draw(run(*every))] == ["fft-forward", "fft-wgrad"]


def test_two_sizes_make_no_line() -> None:
    assert not filters.draw(run(contest(3), contest(5)))


def test_other_padding_at_one_size_is_a_panel_of_its_own() -> None:
    figure = one(filters.draw(run(*(contest(edge, pad=pad) for edge in (3, 5, 7) for pad in (0, 1)))))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["pad 0", "pad 1"]


def test_of_many_kernels_the_slowest_are_left_out() -> None:
    def many(edge: int) -> Contest:
        made = contest(edge)
        others = (convolution(edge, f"fft-{i:02}", 1e-2 * i, pad=edge // 2) for i in range(4, 15))
        return Contest(made.contest, made.question, made.differs, (*made.results, *others), ())

    figure = one(filters.draw(run(*(many(edge) for edge in (3, 5, 7)))))
    told = words(figure)
    assert "Left out are the slowest kernels: fft-14." in told and "fft-13" in told
