"""Which rivals there are, and when their runs count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from micro.command import spread
from micro.contests import rivals
from reports import next_run as paths
from reports.record import Comparison


def test_every_path_has_five_rivals() -> None:
    every = rivals.rivals(2, True)
    by_path = {name: [one for one in every if one.path == name and not one.twin] for name in rivals.SECONDS}
    assert {len(found) for found in by_path.values()} == {5}
    assert {one.path for one in every if one.twin} == set(rivals.SECONDS) - {paths.PYTHON}
    names = [one.contest(0).name for one in every]
    assert len(set(names)) == len(names)


def test_one_core_has_no_pairs_of_two_threads() -> None:
    assert paths.THREADS not in {one.path for one in rivals.rivals(1, True)}


def test_the_quick_one_is_a_part() -> None:
    quick, every = rivals.rivals(2, False), rivals.rivals(2, True)
    assert set(quick) < set(every) and not any(one.twin for one in quick)
    assert {name: sum(one.path == name for one in quick) for name in rivals.QUICK} == rivals.QUICK


@pytest.mark.parametrize(
    ("path", "took", "counts"),
    [
        (paths.WALL, ("wall",), True),
        (paths.WALL, ("wall", "one look"), False),
        (paths.CPU, ("wall",), False),
        (paths.CPU, ("cpu", "one look"), False),
        (paths.ONE_LOOK, ("cpu", "one look"), True),
        (paths.LOCKSTEP, ("wall", "lockstep"), True),
        (paths.LOCKSTEP, ("wall",), False),
    ],
)
def test_a_run_that_took_another_path_does_not_count(path: str, took: tuple[str, ...], counts: bool) -> None:
    one = next(x for x in rivals.rivals(2, True) if x.path == path)
    assert one.took(took) == counts
    told = Comparison("c", "kernel", "a", "b", 1.5, 1.4, 1.6, 0.95, "slower", None, 0.01, 0.01, path=took)
    known: Any = {one.contest(0).name: SimpleNamespace(comparisons=(told,))}
    (found,) = spread.runs([one], 1, known)
    assert (len(found.intervals), found.strayed) == ((1, 0) if counts else (0, 1))
