"""Turns of programs, without programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kernels.errors import Unavailable
from macro.predicting import script_step
from macro.predicting.script_step import Plain
from macro.processes import ahead
from macro.watching.program import ScriptObserver
from macro.watching.script import Script
from tests.macro.changes.test_changes import step
from tests.macro.predicting.test_advice import foreseen

GIB = 1 << 30


@pytest.mark.parametrize(("peak", "groups"), [(0, [3]), (GIB, [3]), (2 * GIB, [2, 1]), (2.5 * GIB, [1, 1, 1])])
def test_as_many_run_at_once_as_memory_has_room_for(
    peak: float, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[int, float]] = []

    def made(step: Any, group: list[Any], file: object, say: object, hopeless: object) -> list[Any]:
        taken.append((len(group), step.plan.seconds))
        return list(group)

    monkeypatch.setattr(script_step, "_time", made)
    monkeypatch.setattr(ahead, "memory", lambda: 10 * GIB)
    three = [foreseen(word) for word in ("heap-keep", "heap-jemalloc", "mkl-dispatch")]
    own = step()
    own = replace(own, plan=replace(own.plan, seconds=6.0))
    assert script_step.make(own, three, cast(Any, None), lambda text: None, peak) == three
    assert taken == [(count, pytest.approx(2.0 * count)) for count in groups]


def test_a_program_that_memory_has_no_room_for_three_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "memory", lambda: 10 * GIB)
    with pytest.raises(Unavailable, match=r"of 4\.3 GB each; memory has room for 2: give it smaller batches"):
        script_step.check(step(), 4 * GIB)


def test_a_block_has_both_clocks() -> None:
    look = Plain(Script(Path("train.py")), cast(Any, None), print)
    look.last = {"steps": [(0, 30_000_000, 10_000_000, 0, 0), (0, 50_000_000, 20_000_000, 0, 0)], "blocked": 10_000_000}
    assert look.block() == pytest.approx({"wall": 0.04, "cpu": 0.02, "blocked": 0.0})
    assert isinstance(look, ScriptObserver)
