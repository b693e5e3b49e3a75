"""`python -m tests.soak`: which campaigns run, what is printed, the exit code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from micro.command.figure import Figure
from tests.conftest import Ran
from tests.soak import __main__ as command
from tests.soak import kept


@pytest.fixture
def soak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> Callable[..., Ran]:
    """The command, with campaigns whose figures are known."""

    def campaign(*figures: Figure | int) -> Callable[[], Iterator[Figure]]:
        def run() -> Iterator[Figure]:
            for figure in figures:
                if isinstance(figure, int):
                    raise kept.Failed(subprocess.CompletedProcess([], figure, stderr="macro: it is not here\n"))
                yield figure

        return run

    fine, busy = Figure("a", "1", "1", True), Figure("b", "2", "1", False, "too busy")
    campaigns = {
        "fine": campaign(fine),
        "busy:one": campaign(fine, busy),
        "busy:two": campaign(busy),
        "broken": campaign(Figure("c", "3", "1", False)),
        "missing": campaign(fine, kept.MISSING),
        "failing": campaign(1),
    }
    monkeypatch.setattr(command, "CAMPAIGNS", campaigns)
    return lambda *words: in_process(capsys, command.main, words)


WHY = "macro: it is not here"
A, B = "a: 1; promised 1: held", "b: 2; promised 1: not judged: too busy"


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (["fine"], 0, [A]),
        (["busy"], 0, [A, B, B]),
        (["busy:two", "fine"], 0, [B, A]),
        (["broken", "fine"], 1, ["c: 3; promised 1: NOT HELD", A]),
        (
            ["missing", "fine"],
            0,
            [A, "missing: skipped; promised to be measured: not judged: macro: it is not here", A],
        ),
        (["failing", "fine"], 1, ["failing: macro: it is not here; promised to be measured: NOT HELD", A]),
    ],
)
def test_campaigns_run_in_their_order(soak: Callable[..., Ran], words: Sequence[str], code: int, out: Any) -> None:
    ran = soak(*words)
    assert (ran.code, ran.out.splitlines()) == (code, out)


def test_without_names_all_campaigns_run(soak: Callable[..., Ran], tmp_path: Path) -> None:
    ran = soak("--json", str(tmp_path / "figures.json"))
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert (ran.code, [figure["name"] for figure in figures]) == (1, [*"aabbca", "missing", "failing"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["slow"], "slow: there are fine, busy:one"),
        (["busy:three"], "busy:three: there are"),
        (["fine", "--json", "nowhere/figures.json"], "--json nowhere/figures.json: No such file"),
        (["-o", "x"], "unrecognized arguments: -o"),
    ],
)
def test_usage_errors_measure_nothing(soak: Callable[..., Ran], words: Sequence[str], says: str) -> None:
    ran = soak(*words)
    assert (ran.code, ran.out) == (2, "") and says in ran.err


def test_help_lists_every_campaign(capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]) -> None:
    ran = in_process(capsys, command.main, ["--help"])
    assert all(name in ran.out for name in ("rate", "causes:heap", "own:knock", "conv:odd", "generations:spread"))
