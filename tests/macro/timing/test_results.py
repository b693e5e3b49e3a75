"""Which entries of a contest are compared, how, and what is said of each over the suite's own kernels."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from macro.explain import request
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing import ratios, results
from macro.timing.answer import sentences
from macro.timing.entry import TWIN, Entry, Plan
from reports import stats
from reports.record import Result, Run, Seconds
from tests import build
from tests.build import case
from tests.macro.conftest import SMALL

PLAN = Plan(chain("small", "a test", 8, (12, 4), rate=0.1), 8, "step", 0.0, 1)
COUNTS: dict[str, Any] = dict.fromkeys(("system", "faults", "voluntary", "involuntary", "peak", "foreign"), 0.0)


def entry(name: str, threads: int, wall: float = 1.0, cpu: float = 1.0, change: str = "") -> Entry:
    made = Entry(find(name), Setting(threads=threads), change=change, setup=[1.0])
    block = {**COUNTS, "wall": wall, "cpu": cpu, "blocked": 0.0, "fma": None, "canary": 1.0}
    made.blocks = [(0, i, block) for i in range(8)]
    return made


def pairs(entries: Sequence[Entry]) -> list[tuple[str, str, str]]:
    made = results.contest(PLAN, entries, 0.01, {})
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


ROUNDS = 24


def times(seconds: float, first: int = 0, generations: int = 3, seed: int = 1) -> dict[tuple[int, int], float]:
    noise = np.random.default_rng(seed).normal(0, 0.01, (generations, ROUNDS))
    return {(g, first + n): seconds * float(np.exp(noise[g, n])) for g in range(generations) for n in range(ROUNDS)}


def test_what_met_is_compared_round_by_round() -> None:
    found = ratios.compare([times(1.0), times(1.2, seed=2), times(5.0, seed=3)], 1, 0, 0.01)
    assert found.through is None and found.generations == 3
    assert found.judged.shown is not None and found.judged.shown.center == pytest.approx(1.2, rel=0.01)
    assert found.judged.verdict == "slower"


def test_what_never_met_is_compared_through_what_met_both() -> None:
    shared = {**times(2.0), **times(2.0, ROUNDS, seed=4)}
    stranger = times(9.0, 99)
    found = ratios.compare([times(1.0, seed=5), stranger, shared, times(1.2, ROUNDS, seed=6)], 3, 0, 0.01)
    assert found.through == 2 and found.generations == 3
    assert found.judged.shown is not None and found.judged.verdict == "slower"
    assert found.judged.shown.center == pytest.approx(1.2, rel=0.02)
    assert found.judged.shown.low < 1.2 < found.judged.shown.high


def test_one_generation_in_which_they_met_is_not_all_that_is_known() -> None:
    """Generations of the pair lie 3 % apart: in the one that it shares it looks like a difference."""
    apart = [0.03, -0.03, 0.0]
    shared, first = times(2.0), times(1.0, seed=5)
    second = {(g, ROUNDS * (g > 0) + n): seconds * float(np.exp(apart[g])) for (g, n), seconds in times(1.0).items()}
    shared |= dict.fromkeys(second, 2.0)
    found = ratios.compare([first, shared, second], 2, 0, 0.01)
    assert (found.through, found.generations) == (1, 3)
    assert found.judged.shown is not None and found.judged.shown.low < 1 < found.judged.shown.high
    together = ratios.compare([first, shared, {key: x for key, x in second.items() if key[0] == 0}], 2, 0, 0.01)
    assert together.through is None and together.generations == 1


def test_through_a_third_one_generation_has_the_notes_of_one() -> None:
    first, second = times(1.0, generations=1), times(1.2, ROUNDS, generations=1, seed=2)
    shared = {**times(2.0, generations=1), **times(2.0, ROUNDS, generations=1, seed=4)}
    found = ratios.compare([first, shared, second], 2, 0, 0.01)
    direct = ratios.compare([first, times(1.2, generations=1, seed=2)], 1, 0, 0.01)
    assert found.through == 1
    assert (found.judged.kind, found.judged.notes) == (direct.judged.kind, direct.judged.notes)


def test_without_one_that_met_both_there_is_no_ratio() -> None:
    for others in ([], [times(1.0, 99)]):
        found = ratios.compare([times(1.0), times(1.2, ROUNDS), *others], 1, 0, 0.01)
        assert found.judged.shown is None and found.judged.verdict == "unresolved" and found.through is None


def test_too_few_common_rounds_are_no_reason_to_go_through_a_third() -> None:
    few = {key: x for key, x in times(1.2, seed=2).items() if key[1] < stats.FEWEST - 1}
    found = ratios.compare([times(1.0), few, times(1.0, seed=3)], 1, 0, 0.01)
    assert found.through is None and found.judged.shown is None


@pytest.mark.parametrize(("generations", "apart"), [(1, 0.0), (3, 0.01), (5, 0.01)])
def test_its_interval_holds_the_ratio(generations: int, apart: float) -> None:
    """Simulated: 95 in 100, or more of few generations, which lie `apart`."""
    rng, trials, hits = np.random.default_rng(7), 400, 0
    for _ in range(trials):
        first, second = ([rng.normal(rng.normal(0, apart), 0.01, ROUNDS) for _ in range(generations)] for _ in range(2))
        shown = stats.through(first, second, 0.01).shown
        assert shown is not None
        hits += shown.low <= 1 <= shown.high
    assert hits / trials >= 0.93


ASKED = Plan(SMALL, 8, "step", 30.0, 1, asked="fcn-r")
PROBLEM = {"network": "small", "batch": 8, "phase": "step", "division": "default"}
COMMAND = "explain fcn-r kernels-only pytorch --batch 8 --phase step --threads 1 --heap default"


def step(variant: str, seconds: float, wobble: float = 0.0, rounds: int = 8) -> Result:
    samples = tuple(seconds * (1 + wobble * (-1) ** i * (1 + 0.1 * i)) for i in range(rounds))
    made = case(
        1, "nn", variant, op="step", problem=PROBLEM, seconds=Seconds(seconds, None, None, 0.95), heap="default"
    )
    made = replace(made, rounds=tuple(range(rounds)), processes=(0,) * rounds, samples=samples)
    return replace(made, name=f"step/variant:{variant}", clock="cpu", step={})


def said(*results: Result) -> list[str]:
    told: Run = build.run(build.contest(*results, contest="step/division:default"))
    return sentences(ASKED, told)


def test_each_has_its_ratio_to_kernels_only_with_an_interval() -> None:
    _, first, second = said(step("kernels-only", 0.10), step("numpy", 0.12, 0.01))
    assert "kernels-only;" not in first and " times " not in first
    assert "1.20 [1.1" in second or "1.199 [1.1" in second
    assert second.split(" times kernels-only")[0].endswith("]")


def test_what_is_below_is_said_and_whether_for_certain() -> None:
    *_, below = said(step("kernels-only", 0.10), step("numpy", 0.12), step("pytorch", 0.08, 0.01))
    assert below.startswith("pytorch (heap default) is below kernels-only, 0.80") and "chance" not in below
    assert below.endswith(f"python -m macro {COMMAND}")
    *_, doubtful = said(step("kernels-only", 0.10), step("pytorch", 0.099, 0.2))
    assert "is below kernels-only, 0.9" in doubtful and "may be chance" in doubtful


def test_of_few_rounds_there_is_no_interval() -> None:
    _, pytorch, _, below = said(step("kernels-only", 0.10, rounds=3), step("pytorch", 0.08, rounds=3))
    assert pytorch.endswith(", 0.80 times kernels-only, no interval.")
    assert "0.80 times kernels-only, no interval (may be chance): " in below


def test_the_line_that_explains_it_is_one_of_the_suite() -> None:
    assert request(shlex.split(COMMAND)[1:]).plan.batch == 8
