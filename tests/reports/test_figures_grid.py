"""The grid of instruction sets and threads: cells where they belong, what was not measured told as such."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reports.figures import grid, threads
from reports.record import Contest, Result, Run, Seconds
from tests.reports import made


def cell(isa: str, many: int, seconds: float | None, **more: Any) -> Result:
    timed = None if seconds is None else Seconds(seconds, None, None, 0.95)
    name = f"gemm/m:64/variant:blocked/threads:{many}/isa:{isa}"
    plain = replace(made.case(64, variant="blocked"), name=name, isa=isa, threads=many, **more)
    if timed is None:
        return replace(plain, status="skipped", reason="not here", seconds=None)
    return replace(plain, seconds=timed)


def contest(*cells: Result, word: str = "grid", differs: str = "isa and threads") -> Contest:
    first = cells[0].seconds.median if cells[0].seconds else 1.0
    found = tuple(made.compared(x, cells[0], x.seconds.median / first) for x in cells[1:] if x.seconds)
    question = "product 64³: what?"
    plain = replace(made.contest(64), contest=f"{word}/x", question=question, differs=differs)
    return replace(plain, results=cells, comparisons=found)


CELLS = (cell("sse4.2", 1, 8.0), cell("sse4.2", 2, 4.0), cell("avx512", 1, 2.0), cell("avx512", 2, None))


def drawn(*contests: Contest) -> list[str]:
    figure = made.one(grid.draw(made.run(*contests)))
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_each_cell_says_how_many_times_as_fast_it_is() -> None:
    assert drawn(contest(*CELLS)) == ["1", "4", "2", "–"]


def test_columns_are_sets_on_one_thread_then_on_two() -> None:
    figure = made.one(grid.draw(made.run(contest(*CELLS))))
    (axes,) = figure.axes
    assert [x.get_text().replace("\n", " ") for x in axes.get_xticklabels()] == [
        *("sse4.2 1 thread", "avx512 1 thread"),
        *("sse4.2 2 threads", "avx512 2 threads"),
    ]
    assert [x.get_text() for x in axes.get_yticklabels()] == ["product 64³, blocked"]


def test_other_contests_have_no_grid() -> None:
    assert grid.draw(made.run(contest(*CELLS, differs="variant"), made.contest(8))) == []
    assert grid.draw(made.run(contest(cell("sse4.2", 1, None)))) == []


def many_threads(ceilings: tuple[Result, ...] = ()) -> Run:
    one, two = cell("default", 1, 8.0, ceiling="read 1 MiB"), cell("default", 2, 5.0, ceiling="read 1 MiB, 2 threads")
    found = made.compared(two, one, 5 / 8)
    return made.run(replace(contest(one, two, *ceilings, word="threads", differs="threads"), comparisons=(found,)))


def ceiling(name: str, many: int, rate: float) -> Result:
    plain = replace(made.FMA, name=name, op="stream", threads=many, ceiling=name)
    return replace(plain, bytes_per_second=rate, flops_per_second=1.0)


def test_a_line_of_threads_has_the_gain_its_interval_and_its_own_ceiling() -> None:
    limits = ceiling("read 1 MiB", 1, 1e10), ceiling("read 1 MiB, 2 threads", 2, 1.7e10)
    figure = made.one(threads.draw(many_threads(limits)))
    lines = {line.get_marker(): list(line.get_ydata()) for line in figure.axes[0].get_lines()}
    assert lines["o"] == [1.0, 8 / 5]
    assert lines["_"] == [1.0, 1.7]


def test_without_a_ceiling_the_line_stands_alone() -> None:
    figure = made.one(threads.draw(many_threads()))
    lines = {line.get_marker(): list(line.get_ydata()) for line in figure.axes[0].get_lines()}
    assert lines["o"] == [1.0, 8 / 5] and lines["_"] == []
    assert threads.draw(made.run(made.contest(8))) == []
