"""What is said of one step: a busy machine first, no advice from chance, what looking costs."""

from __future__ import annotations

import numpy as np
import pytest

from macro.explaining import advice, breakdown, certain
from macro.watching.load import Load
from macro.watching.perf import Sample
from macro.watching.recording import Recording, Watched
from reports.breakdown import Breakdown
from tests.explanations import breakdown as a_step

PROGRAM = {"script": "train.py", "step": "optimizer.step()", "heap": "keep", "framework": "pytorch", "version": "2"}
KEEP = "To try: keep freed memory"


def started(seconds: float, half: float) -> dict[str, float]:
    """Step on the heap that the script starts with."""
    return {"seconds": seconds, "low": seconds - half, "high": seconds + half, "faults": 900.0}


def tries(step: Breakdown) -> list[str]:
    return [one for one in advice.sentences(step) if one.startswith(KEEP)]


def test_a_busy_machine_is_in_the_first_two_lines() -> None:
    assert "This machine was busy" not in "".join(advice.sentences(a_step(busy=0.05)))
    assert advice.sentences(a_step(busy=0.4))[1].startswith("This machine was busy: others took 40% of")


@pytest.mark.parametrize(
    ("half", "busy", "tried"), [(0.002, 0.0, True), (0.002, 0.4, False), (0.02, 0.0, False), (0.0095, 0.0, True)]
)
def test_only_a_certain_heap_effect_is_advice(half: float, busy: float, tried: bool) -> None:
    step = a_step(started=started(0.11, half), busy=busy)
    assert bool(tries(step)) == tried
    assert any("which may be chance" in one for one in advice.sentences(step)) != tried


def test_intervals_of_both_heaps_add_up() -> None:
    assert not tries(a_step(started=started(0.11, 0.0098)))  # the step's own are 3 ms


def test_perfs_own_time_is_printed() -> None:
    (looking,) = [x for x in advice.sentences(a_step(program={**PROGRAM, "perf": 0.0123})) if x.startswith("Looking")]
    assert looking.startswith("Looking costs: both +2%, perf took 1.2% of a core.")


def test_an_interval_of_a_time_begins_at_zero_at_least() -> None:
    noisy = certain.estimate([np.array([0.001, 0.05, 0.002, 0.1])])
    assert certain.ends(noisy)[0] < 0.0 == certain.time_ends(noisy)[0]
    assert certain.time_ends(noisy)[1] == certain.ends(noisy)[1]


def test_a_breakdown_has_the_share_of_others() -> None:
    levels = {"P0": [0.01, 0.05, 0.001], "P3": [0.01, 0.05, 0.001]}
    steps = [(i * 10**8, i * 10**8 + 10**7, 0.01, 0.0) for i in range(3)]
    samples = [Sample(1, i * 10**8 + 1000, "sgemm", "libmkl.so") for i in range(3)]
    watched = Watched(
        levels, rounds=[0, 1, 2], steps=steps, system=[0.0] * 3, samples=samples, load=[Load(0.1, 0.1, 0.2)] * 3
    )
    step = breakdown.taken_apart(Recording(dict(PROGRAM), [watched]), 1.0, breakdown.Ceilings(None, None))
    assert step.busy == pytest.approx(0.5)
    assert step.interval[0] == 0.0
