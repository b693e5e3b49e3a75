"""A watched step in which the process grew, by a process that follows a script."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from macro.frameworks import find
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan
from macro.watching.watch import TRIES, NetworkObserver
from tests.macro.watched import NET

STEP = 200_000_000  # nanoseconds: longer than a block
PLAIN = 100  # page faults of a plain step
GROWS = 50_000


class Process:
    """Tells of each traced step the next of `faults`, and PLAIN from then on; a plain one had `grew` once."""

    def __init__(self, *faults: int, grew: int = PLAIN) -> None:
        self.faults, self.now, self.traced, self.plain = list(faults), 0, 0, [PLAIN, PLAIN, grew]

    def ask(self, patience: float, kind: str, **request: Any) -> dict[str, Any]:
        if kind == "replayed":
            return {"calls": [], "seconds": []}
        count = request["count"]
        if kind == "steps":
            faults = [self.plain.pop(0) if self.plain else PLAIN for _ in range(count)]
            times = {"cpu_ns": [STEP] * count, "blocked_ns": [0] * count, "system_ns": [0] * count}
            return {**times, "faults": faults}
        steps = [[self.now + i * STEP, self.now + (i + 1) * STEP, STEP, 0] for i in range(count)]
        self.now, self.traced = self.now + count * STEP, self.traced + 1
        faults = [self.faults.pop(0) if self.faults else PLAIN for _ in range(count)]
        inside = [1000 * self.traced] * count
        return {"steps": steps, "faults": faults, "system_ns": inside, "spans": [], "traces": True}


def looked(*faults: int, grew: int = PLAIN) -> tuple[NetworkObserver, Process]:
    """After a round of a process that was started."""
    process = Process(*faults, grew=grew)
    script: Any = process
    look = NetworkObserver(Plan(NET, NET.batch, "step", 1.0, 1), Entry(find("numpy"), Setting()), script)
    look.round(1, Random(1))
    return look, process


@pytest.mark.parametrize("grown", [0, 1, 2])
def test_a_step_in_which_the_process_grew_is_taken_again(grown: int) -> None:
    look, process = looked(*[GROWS] * grown)
    (seen,) = look.unread
    assert (seen.retaken, process.traced) == (grown, grown + 1)
    assert seen.steps == [(grown * STEP, (grown + 1) * STEP, STEP * 1e-9, 0.0)]
    assert seen.levels["P3"] == [STEP * 1e-9]
    assert seen.watched_system == [pytest.approx(1e-6 * (grown + 1))]  # of the steps that are kept


def test_one_that_always_grows_stays_as_it_is() -> None:
    look, process = looked(*[GROWS] * 9)
    (seen,) = look.unread
    assert (seen.retaken, process.traced, len(seen.steps)) == (TRIES, TRIES, 1)


def test_a_plain_step_that_grew_excuses_none() -> None:
    look, process = looked(GROWS, grew=2 * GROWS)
    assert (look.unread[0].retaken, process.traced) == (1, 2)


def test_faults_that_plain_steps_have_too_are_no_growth() -> None:
    look, _ = looked(PLAIN * 2)
    assert look.unread[0].retaken == 0
