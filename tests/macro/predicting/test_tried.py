"""Trials of changes in processes of an unchanged script, without processes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels.errors import LaunchError
from macro import changes
from macro.changes.base import Ratio
from macro.changes.heaps import KEEP
from macro.predicting import processes, script_step, tried
from macro.predicting.forecast import TRIALS
from macro.watching.ends import Ended
from macro.watching.recording import Watched
from macro.watching.script import Script
from tests.macro.changes.test_changes import before, step
from tests.macro.predicting.test_forecast import asked, foreseer

THREADS, FUSED, REFUSED = "threads=2", "fused", "channels_last"


class Look:
    """A process whose step takes `with_two` of its time with two threads; `fails`: the trial that ends it."""

    def __init__(self, with_two: float = 0.5, fails: str = "", ends: bool = False) -> None:
        self.with_two, self.fails, self.ends = with_two, fails, ends
        self.gone: str | None = None
        self.watched = Watched()
        self.recording = SimpleNamespace(program=dict[str, Any]())
        self.asked: list[str] = []
        self.trial, self.block_seconds, self.ended = "", 0.01, False

    def round(self, number: int, order: random.Random) -> None:
        self.watched.level("P0", 1.0 + self.with_two, 100.0 * self.with_two)
        self.watched.system.append(0.1)

    def read(self) -> None:
        pass

    def end(self) -> None:
        self.ended = True

    def trials(self, names: list[str], seconds: float, fewest: int, seed: int) -> None:
        self.asked += names
        self.recording.program["refused"] = {REFUSED: "no filter"}
        if self.fails in names:
            self.trial = self.fails
            raise Ended("failed", "expected Float")
        blocks = {"": [1.0, 1.2, 1.0], THREADS: [9.0, self.with_two, self.with_two], FUSED: [1.0]}
        self.recording.program["trials"] = blocks
        if self.ends:
            del blocks[THREADS][1:]
            raise Ended("done", "")

    def kept(self, before: list[float], blocks: int) -> float | None:
        assert before == self.watched.levels["P0"]
        return 0.8


def together(monkeypatch: pytest.MonkeyPatch, looks: list[Look], *names: str) -> tried.Unchanged:
    left = list(looks)
    monkeypatch.setattr(tried, "_settled", lambda step, say, stack: left.pop(0))
    seen = tried.unchanged(step(), names, 3.0, lambda text: None, 1)
    assert not left and all(look.ended for look in looks)
    return seen


def test_what_a_trial_saves_is_the_median_of_three_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [Look(0.5), Look(0.6), Look(0.9)]
    seen = together(monkeypatch, looks, THREADS, FUSED, REFUSED, KEEP)
    ratio = seen.tried[THREADS]
    assert isinstance(ratio, Ratio) and ratio.value == pytest.approx(0.6)
    assert ratio.high - ratio.value == ratio.value - ratio.low == pytest.approx(2.92 * stdev((0.5, 0.6, 0.9)) / 3**0.5)
    assert seen.tried[KEEP] == Ratio(*[pytest.approx(0.8)] * 3)
    assert seen.tried[REFUSED] == "no filter"
    assert "before each process had tried it" in cast(str, seen.tried[FUSED])  # a single block
    assert (seen.faults, seen.system) == pytest.approx((200 / 3, 0.1)) and seen.error > 10
    assert seen.between == pytest.approx(2.92 * stdev((0.5, 0.6, 0.9)) / (5 / 3) * 1.5**0.5)
    assert looks[0].asked == [THREADS, FUSED, REFUSED]  # the heap is kept after all others


def test_a_script_that_ends_leaves_what_all_processes_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = together(monkeypatch, [Look(), Look(ends=True), Look()], THREADS)
    assert "the script ended" in cast(str, seen.tried[THREADS])
    gone = [Look(), Look(), Look()]
    gone[0].gone = "it ended"
    with pytest.raises(LaunchError, match="it ended"):
        together(monkeypatch, gone)


def test_a_trial_that_ends_a_process_costs_no_other_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [Look(fails="bf16"), *(Look(fails="bf16") for _ in range(3))]
    seen = together(monkeypatch, looks, THREADS, "bf16", KEEP)
    assert seen.tried == {
        THREADS: Ratio(0.5, 0.5, 0.5),
        "bf16": "expected Float",
        KEEP: Ratio(*[pytest.approx(0.8)] * 3),
    }
    assert ["bf16" in look.asked for look in looks] == [True, False, False, False]


def test_long_steps_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [Look(), Look(), Look()]
    for look in looks:
        look.block_seconds = 2.0  # 6 blocks, of plain steps and of the trial, in each of 3 processes
    seen = together(monkeypatch, looks, THREADS)
    assert "longer --budget" in cast(str, seen.tried[THREADS]) and not looks[0].asked


def test_a_trial_predicts_a_change_of_a_script() -> None:
    named = changes.find("heap-keep")
    seen = replace(asked(100.0), before=before(tried={KEEP: Ratio(0.8, 0.7, 0.9)}, between=0.1))
    predictor = foreseer()
    predictor.__dict__["before"] = seen.before
    saved, between = predictor._brings(named, seen).parts
    assert saved == (TRIALS, *[pytest.approx(x) for x in (-0.2, -0.3, -0.1, 1.0)])
    assert between[1:] == pytest.approx((0.0, -0.1, 0.1, 0.0))
    assert not predictor._needs_kernels(named)


def test_without_its_trial_a_change_is_predicted_as_a_networks_unless_it_is_an_edit() -> None:
    why = "compiled code would be compiled again"
    seen = replace(asked(4500.0), before=before(tried={KEEP: why, FUSED: why}))
    predictor = foreseer()
    predictor.__dict__["before"] = seen.before
    heap, edit = changes.find("heap-keep"), changes.find("fused-optimizer")
    assert predictor._brings(heap, seen).parts[0].what == "page faults" and predictor._needs_kernels(heap)
    assert predictor._brings(edit, seen).why == why and not predictor._needs_kernels(edit)


@pytest.mark.parametrize(
    ("seconds", "room", "runs", "count"), [(100.0, 9, 3, 3), (100.0, 8, 3, 1), (1.0, 9, 3, 1), (1.0, 1, 1, 1)]
)
def test_several_processes_run_where_memory_and_time_allow(
    seconds: float, room: int, runs: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_step, "room_for", lambda peak: room)
    own = step()
    own = replace(own, plan=replace(own.plan, seconds=seconds, generations=runs, fewest=6))
    plan = script_step.fitted(own, 1, before()).plan
    assert (plan.generations, plan.fewest) == (count, 10 if count < runs else 6)


@pytest.mark.parametrize(("accepts", "ratio"), [(True, 0.5), (False, None)])
def test_freed_memory_is_kept_between_blocks(
    accepts: bool, ratio: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = processes.Plain(Script(Path("train.py")), cast(Any, None), print)
    kept: list[bool] = []
    monkeypatch.setattr(look, "keep_freed", lambda: kept.append(accepts) or accepts)
    monkeypatch.setattr(look, "block", lambda count: SimpleNamespace(each=lambda one: [0.2 if kept else 0.4] * 3))
    assert look.kept([0.4], 2) == ratio
