"""Runs of `macro run` in the self-test: their words, their records, what fails; and its stand-in frameworks."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micro.command import generations, rival_runs
from micro.contests import stub_framework
from reports import next_run, record
from reports.record import Comparison, Contest, Environment
from reports.store import RunFile

FRAMEWORKS = generations.Generations("few", "", ("a.py:one", "a.py:two", "a.py:three"), ("--budget", "1s"), 3)


def contest(name: str) -> Contest:
    """As `macro run` writes one of three frameworks."""
    rows = [
        record.Result(x, name, "measured", "step", {}, x, "cpu", 1, "skipped", "not here")
        for x in FRAMEWORKS.frameworks
    ]
    told = Comparison(name, "framework", rows[0].name, "", 1.2, 1.1, 1.3, 0.95, "slower", None, 0.01, 0.01)
    told = replace(told, path=(next_run.GENERATIONS,))
    pairs = (replace(told, contender=rows[1].name), replace(told, contender=rows[2].name, ratio=1.5, high=1.6))
    return Contest(name, "?", "framework", tuple(rows), pairs)


def never(contest: object, seconds: float) -> Contest:
    """There are no rivals here."""
    raise AssertionError(contest)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of macro that write a run file and take no time."""
    asked: list[list[str]] = []

    def run(words: list[str], **more: Any) -> None:
        asked.append(words)
        output = Path(words[words.index("-o") + 1])
        file = RunFile(output, Environment("0", {}, {}, " ".join(words), "now"))
        file.append(contest("step/network:stub"))
        file.close()
        assert more["check"] and Path(words[words.index("run") + 1]).exists()

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_a_run_has_its_name_in_the_self_test(commands: list[list[str]]) -> None:
    done = generations.run(FRAMEWORKS, 2)
    assert done.contest == "selftest/rival/generations/few/2"
    assert {x.contest for x in (*done.results, *done.comparisons)} == {done.contest}
    (words,) = commands
    assert words[1:5] == ["-P", "-m", "macro", "run"]
    assert words[6:10] == ["--frameworks", "a.py:one,a.py:two,a.py:three", "--budget", "1s"]


def test_each_framework_but_the_first_is_a_pair(commands: list[list[str]]) -> None:
    runs = rival_runs.RivalRuns([], [FRAMEWORKS], 7)
    known: dict[str, Contest] = {}
    for number in range(5):
        for done in runs.take(number, never, known):
            known[done.contest] = done
    assert len(commands) == 3, "no more than it is to be run"
    first, second = runs.runs(5, known)
    assert (first.pair, second.pair) == ("few two/one", "few three/one")
    assert [x.center for x in second.intervals] == [1.5] * 3 and first.path == next_run.GENERATIONS
    assert not [*runs.take(0, never, known)], "it is in the file"


def test_a_command_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(words: list[str], **more: Any) -> None:
        raise subprocess.CalledProcessError(3, words)

    monkeypatch.setattr(subprocess, "run", fails)
    runs = rival_runs.RivalRuns([], [FRAMEWORKS], 7)
    assert not [*runs.take(0, never, {})]
    assert runs.broken == ["macro run of few ended with exit code 3"]


@pytest.mark.parametrize("how", stub_framework.HOW)
@pytest.mark.parametrize("layout", ["plain", "left", "right"])
def test_a_stub_makes_the_product(how: str, layout: str) -> None:
    """Of transposed operands too, as gradients have them."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 5)).astype("f4"), rng.normal(size=(5, 4)).astype("f4")
    left = np.ascontiguousarray(a.T).T if layout == "left" else a
    right = np.ascontiguousarray(b.T).T if layout == "right" else b
    out = np.full((6, 4), np.nan, np.float32)
    stub_framework.HOW[how](left, right, out)
    assert np.allclose(out, a @ b, atol=1e-5)


def test_every_stub_but_the_plain_one_has_its_way() -> None:
    assert [knobs.get("how") for knobs in stub_framework.ROWS.values()] == [None, *stub_framework.HOW]
    assert tuple(stub_framework.ROWS) == generations.ROWS
