"""Which entries of a contest are compared: frameworks on as many threads, by one clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing import results
from macro.timing.entry import TWIN, Entry, Plan

PLAN = Plan(chain("small", "a test", 8, (12, 4), rate=0.1), 8, "step", 0.0, 1)
COUNTS: dict[str, Any] = dict.fromkeys(("system", "faults", "voluntary", "involuntary", "peak", "foreign"), 0.0)


def entry(name: str, threads: int, wall: float = 1.0, cpu: float = 1.0, change: str = "") -> Entry:
    made = Entry(find(name), Setting(threads=threads), change=change, setup=[1.0])
    block = {**COUNTS, "wall": wall, "cpu": cpu, "blocked": 0.0, "fma": None, "canary": 1.0}
    made.blocks = [(0, i, block) for i in range(8)]
    return made


def pairs(entries: Sequence[Entry]) -> list[tuple[str, str, str]]:
    made = results.contest(PLAN, entries, "default", 0.01, {})
    words = [(x.baseline.split("variant:")[1], x.contender.split("variant:")[1], x.differs) for x in made.comparisons]
    return [(a.partition("/heap")[0], b.partition("/heap")[0], differs) for a, b, differs in words]


def test_frameworks_are_compared_on_as_many_threads() -> None:
    grid = [entry(name, threads) for threads in (1, 2) for name in ("numpy", "jax")]
    assert pairs(grid) == [
        ("numpy/threads:1", "jax/threads:1", "framework"),
        ("numpy/threads:1", "numpy/threads:2", "threads"),
        ("numpy/threads:2", "jax/threads:2", "framework"),
    ]


def test_different_frameworks_on_different_threads_are_not_compared() -> None:
    assert pairs([entry("numpy", 1), entry("jax", 2)]) == []


def test_changes_are_compared_with_what_is_unchanged_whatever_their_threads() -> None:
    made = [entry("numpy", 1), entry("numpy", 1, change=TWIN), entry("numpy", 2, change="threads=2")]
    told = results.changed(PLAN, made, 0.01, {}).comparisons
    assert [(x.baseline == results.name(PLAN, made[0]), x.differs) for x in told] == [(True, "change")] * 2


@pytest.mark.parametrize(("threads", "ratio"), [(1, 0.5), (2, 2.0)])
def test_two_of_different_clocks_are_compared_by_the_wall(threads: int, ratio: float) -> None:
    """Of one thread the processor time counts, which a queue is no part of; against several the wall of both."""
    made = [entry("numpy", 1, wall=1.0, cpu=1.0), entry("numpy", threads, wall=2.0, cpu=0.5, change="x")]
    (told,) = results.changed(PLAN, made, 0.01, {}).comparisons
    assert told.ratio == pytest.approx(ratio)
    assert (results.BY_WALL.format("processor") in told.notes) == (threads > 1)
