"""Pairs of processes for the gate: which blocks they run, in which order they start, and how they end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import UsageError
from macro.timing.entry import FEWEST
from macro.watching import plain
from macro.watching.plain import Pair
from macro.watching.recording import Recording, Watched
from macro.watching.script import Script
from tests.macro.watching.test_program import BEGUN, HELLO, STEP, Program, ended

SCRIPTS = [Script(Path(f"/x/{name}.py"), python=Path("python"), seconds=0.0, patience=0.1) for name in ("old", "new")]
TORCH = {**HELLO, "framework": "pytorch"}


def run(monkeypatch: pytest.MonkeyPatch, *programs: Program, number: int = 0) -> tuple[Pair, list[str]]:
    """Return a pair and the order in which its scripts were started."""
    started: list[str] = []
    left = {"old": programs[0], "new": programs[1]}

    def start(script: Script, *more: Any) -> Program:
        started.append(script.path.stem)
        return left[script.path.stem]

    monkeypatch.setattr(plain, "Program", start)
    return plain.run(SCRIPTS, 0.0, number), started


def test_plain_steps_alone_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = [Program(BEGUN, TORCH) for _ in range(2)]
    pair, _ = run(monkeypatch, *fakes)
    assert pair.rounds == FEWEST and set(pair.seconds[0]) == set(pair.seconds[1]) == {STEP * 1e-9}
    assert len(pair.load) == 2 * FEWEST and pair.ended == ""
    for fake in fakes:
        blocks = [request for request in fake.asked if request["do"] == "block"]
        assert not any(request["spans"] or request["shapes"] or request["fifos"] for request in blocks)
        assert fake.asked[-1] == {"do": "bye"} and fake.closed == 1


def test_either_script_starts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    firsts = [
        run(monkeypatch, Program(BEGUN, HELLO), Program(BEGUN, HELLO), number=number)[1][0] for number in range(12)
    ]
    assert set(firsts) == {"old", "new"}
    again = random.Random(0).sample(range(2), 2)
    assert firsts[0] == ("old", "new")[again[0]]


def test_an_early_end_leaves_the_rounds_that_both_have(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, _ = run(monkeypatch, Program(BEGUN, HELLO), Program(BEGUN, HELLO, most=14, last=ended("ended")))
    assert 0 < pair.rounds < FEWEST and len(pair.seconds[0]) == len(pair.seconds[1])
    assert pair.ended == "new.py: the script ended by itself"
    never, _ = run(monkeypatch, *(Program(BEGUN, ended("failed", "E: x")) for _ in range(2)))
    assert never.rounds == 0 and never.ended.endswith("the script failed: E: x")


def test_rounds_of_one_script_alone_are_left_out() -> None:
    recordings = [Recording({"script": "/x/a.py"}, [Watched(levels={"P0": [1.0] * rounds})]) for rounds in (3, 2)]
    assert plain.pair_of(recordings).seconds == ([1.0, 1.0], [1.0, 1.0])


def test_a_script_that_cannot_be_watched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = [Program(BEGUN, ended("usage", "--step x:y: x has no y")) for _ in range(2)]
    with pytest.raises(UsageError, match="--step x:y"):
        run(monkeypatch, *fakes)
    assert sum(fake.closed for fake in fakes) == 1
