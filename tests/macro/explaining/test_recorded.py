"""The sides of an explanation of a network are recordings, told like those of any program."""

from __future__ import annotations

from pathlib import Path

import pytest

from macro.explaining import breakdown, pair, recorded
from macro.watching import kg
from macro.watching.watch import Side
from tests.macro.explaining.sides import FAST, PLAN, side


@pytest.fixture
def sides() -> list[Side]:
    both = [side("numpy", ["fc1 wgrad", *FAST]), side("pytorch", FAST)]
    for one in both:
        one.entry.identity = {"kind": "hello", "seq": 1, "t_mono_ns": 5, "python": "3.11", "version": "2"}
        one.processes[0].calls.append((["fc1 update"], None))  # of a kind that nobody tells
    return both


def test_each_is_written_and_told_alone(sides: list[Side], tmp_path: Path) -> None:
    said: list[str] = []
    assert recorded.keep(PLAN, sides, tmp_path / "run.jsonl", said.append)
    paths = [tmp_path / "run-a.kg", tmp_path / "run-b.kg"]
    assert said == [f"recording: {path}" for path in paths]
    for path, one in zip(paths, sides, strict=True):
        read = kg.read(path)
        assert "seq" not in read.program and read.processes[0].calls == one.processes[0].calls
        assert read.program["script"] == f"{PLAN.network.name} {one.entry.framework.name}"
        found = breakdown.taken_apart(read, 0.0, breakdown.Ceilings(None, None))
        assert sum(cell.a for cell in found.cells) + found.residual["a"] == pytest.approx(found.step["a"], rel=1e-3)
        assert {cell.phase for cell in found.cells if cell.path == "fc1"} >= {"backward", "update"}


def test_two_of_them_are_a_gap(sides: list[Side]) -> None:
    told = pair.explain(*(recorded.recording(PLAN, one) for one in sides), 0.0)
    steps = [sum(x for p in one.processes for x in p.levels["P0"]) for one in sides]
    assert (told.gap > 0) == (steps[0] > steps[1])
    assert any(cell.row.startswith("fc1 ") for cell in told.cells)


def test_a_disk_that_is_full_is_said(sides: list[Side], tmp_path: Path) -> None:
    said: list[str] = []
    assert not recorded.keep(PLAN, sides, tmp_path / "nowhere" / "run.jsonl", said.append)
    assert said[0].startswith("macro explain: -o ") and "No such file" in said[0]
