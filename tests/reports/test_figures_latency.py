"""The picture of what a load takes over the size of memory, and that no rate is drawn of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports.figures import _caches, latency, rate
from reports.record import Contest, Result, Run, Seconds
from tests.reports.made import case, one, run, words

FACTS = {"device": {"model": "Some CPU", "caches": [32 << 10, 32 << 20]}}
FORMS = {"working_set": "bytes", "page": "bytes"}


def load(size: int, page: int, seconds: float, **changes: Any) -> Result:
    name = f"chase/working_set:{size}/page:{page}/variant:c/threads:1"
    timed = Seconds(seconds, 0.9 * seconds, 1.1 * seconds, 0.95)
    problem = {"working_set": size, "page": page}
    made = case(1, variant="c", op="chase", problem=problem, seconds=timed, contest="latency/chase", axes=FORMS)
    return replace(made, name=name, flops_per_second=None, bytes_per_second=64 / seconds, **changes)


def loads(*results: Result) -> Run:
    made = run(Contest("latency/chase", "how long does a load take?", "page", results, ()))
    return replace(made, environment=replace(made.environment, facts=FACTS))


SWEEP = [
    load(size, page, 1e-9 * (1 + i) * (1 + (page > 4096)))
    for i, size in enumerate((4096, 1 << 20, 1 << 30))
    for page in (4096, 2 << 20)
]


def test_nanoseconds_over_bytes_with_a_line_for_each_size_of_page() -> None:
    figure = one(latency.draw(loads(*SWEEP)))
    (axes,) = figure.axes
    assert axes.get_ylabel() == "ns of a load"
    assert [x.get_text() for x in axes.get_xticklabels()] == ["4 KiB", "1 MiB", "1 GiB"]
    assert {"page 4 KiB", "page 2 MiB"} <= {x.strip() for x in words(figure).splitlines()}
    lines = [list(x.get_ydata()) for x in axes.lines if len(list(x.get_xdata())) == 3]
    assert lines == [pytest.approx([1e-9, 2e-9, 3e-9]), pytest.approx([2e-9, 4e-9, 6e-9])]
    marks = [x for x in axes.lines if x.get_linewidth() == _caches.LINE["linewidth"]]
    assert [list(x.get_xdata()) for x in marks] == [[32 << 10] * 2, [32 << 20] * 2]


def test_there_is_no_rate_of_a_load_and_no_curve_of_one_size() -> None:
    assert rate.draw(loads(*SWEEP)) == []
    assert latency.draw(loads(*SWEEP[:2])) == []
    assert latency.draw(loads(*(replace(x, seconds=None, status="skipped", reason="no time") for x in SWEEP))) == []
