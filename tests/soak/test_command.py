"""`python -m tests.soak`: which campaigns run, what is printed, the exit code; and which of their run files stay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from micro.command.figure import Promise
from tests import build
from tests.conftest import Ran
from tests.soak import __main__ as command
from tests.soak import kept
from tests.soak.conftest import Macro, write


def campaign(*figures: Promise | int) -> Callable[[], Iterator[Promise]]:
    """Return a campaign of these figures; a number: a command of it ends with this exit code."""

    def run() -> Iterator[Promise]:
        for figure in figures:
            if isinstance(figure, int):
                raise kept.Failed(subprocess.CompletedProcess([], figure, stderr="macro: it is not here\n"))
            yield figure

    return run


FINE, BUSY = Promise("a", "1", "1", True), Promise("b", "2", "1", False, "too busy")
CAMPAIGNS = {"fine": campaign(FINE), "busy:one": campaign(FINE, BUSY), "busy:two": campaign(BUSY)}
CAMPAIGNS |= {"broken": campaign(1), "missing": campaign(FINE, kept.MISSING)}
A, B = "a: 1; promised 1: held", "b: 2; promised 1: not judged: too busy"
MISSING = "missing: skipped; promised to be measured: not judged: macro: it is not here"


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (["busy"], 0, [A, B, B]),
        (["busy:two", "missing", "fine"], 0, [B, A, MISSING, A]),
        (["broken", "fine"], 1, ["broken: macro: it is not here; promised to be measured: NOT HELD", A]),
        (["slow"], 2, []),
        (["fine", "--json", "nowhere/figures.json"], 2, []),
    ],
)
def test_campaigns_run_in_their_order(
    words: Sequence[str],
    code: int,
    out: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    in_process: Callable[..., Ran],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(command, "CAMPAIGNS", CAMPAIGNS)
    ran = in_process(capsys, command.main, words)
    assert (ran.code, ran.out.splitlines()) == (code, out)
    in_process(capsys, command.main, ["--json", str(tmp_path / "figures.json")])
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert [figure["name"] for figure in figures] == [*"aabb", "broken", "a", "missing"]


EXPLAIN = ["explain", "fcn-r", "numpy", "pytorch", "-q"]
CONTEST = build.contest(contest="step/x")


@pytest.fixture
def path(own_state: Path) -> Path:
    return kept.folder("soak-test") / "pair-01.jsonl"


def test_finished_runs_stay_and_the_forecast_counts_what_is_left(macro: Macro, path: Path) -> None:
    other = path.with_name("pair-02.jsonl")
    stems = macro(lambda stem, again: [CONTEST])
    write(path, [*EXPLAIN[:-1], "--batch", "8", "-q"], [CONTEST])  # another command's
    assert [len(kept.run(EXPLAIN, path).contests) for _ in range(2)] == [1, 1]
    assert stems == ["pair-01"] and not path.with_suffix(".part").exists()
    for paths, text in (
        ((path, other), "1 of 2 are to be measured, about 2 min; run files stay in "),
        ((path,), "0 of 1"),
    ):
        assert kept.forecast("pairs", dict.fromkeys(paths, EXPLAIN), 120.0).value.startswith(text)


@pytest.mark.parametrize(("resumed", "refused"), [(True, False), (False, False), (True, True)])
def test_interrupted_runs_are_resumed_on_request(resumed: bool, refused: bool, macro: Macro, path: Path) -> None:
    write(path.with_suffix(".part"), EXPLAIN)
    for name in ("pair-01-a.kg", "pair-011.kg"):
        path.with_name(name).touch()
    again: list[bool] = []

    def answer(stem: str, resume: bool) -> Any:
        again.append(resume)
        return (2, []) if resume and refused else [CONTEST]

    macro(answer)
    kept.run(EXPLAIN, path, resumed=resumed)
    assert again == ([True, False] if refused else [resumed]), "of another environment it begins anew"
    assert path.with_name("pair-01-a.kg").exists() is (resumed and not refused), "a recording there would be refused"
    assert path.with_name("pair-011.kg").exists(), "it is another pair's"


@pytest.mark.parametrize(("code", "counts"), [(1, True), (1, False), (2, False)])
def test_failed_commands_raise_but_for_complete_ones(code: int, counts: bool, macro: Macro, path: Path) -> None:
    macro(lambda stem, again: (code, [CONTEST]))
    if counts:
        assert kept.run(EXPLAIN, path, complete=lambda run: bool(run.contests)).contests
        return
    with pytest.raises(kept.Failed, match="it is not here") as failed:
        kept.run(EXPLAIN, path)
    assert failed.value.missing is (code == 2) and not path.exists()
