"""`python -m tests.soak`: which campaigns run, what is printed, the exit code; and which of their run files stay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from micro.command.figure import Figure
from tests import build
from tests.conftest import Ran
from tests.soak import __main__ as command
from tests.soak import kept
from tests.soak.conftest import Macro, write


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


EXPLAIN = ["explain", "fcn-r", "numpy", "pytorch", "-q"]
CONTEST = build.contest(contest="step/x")


@pytest.fixture
def path(own_state: Path) -> Path:
    return kept.folder("soak-test") / "pair-01.jsonl"


def test_finished_runs_stay_and_the_forecast_counts_what_is_left(macro: Macro, path: Path) -> None:
    other = path.with_name("pair-02.jsonl")
    stems = macro(lambda stem, again: [CONTEST])
    assert [len(kept.run(EXPLAIN, path).contests) for _ in range(2)] == [1, 1]
    assert stems == ["pair-01"] and not path.with_suffix(".part").exists()
    for paths, text in (
        ((path, other), "1 of 2 are to be measured, about 2 min; run files stay in "),
        ((path,), "0 of 1"),
    ):
        assert kept.forecast("pairs", dict.fromkeys(paths, EXPLAIN), 120.0).value.startswith(text)


@pytest.mark.parametrize("change", ["cut", "other words"])
def test_unusable_files_are_measured_anew(change: str, macro: Macro, path: Path) -> None:
    write(path, EXPLAIN if change == "cut" else [*EXPLAIN[:-1], "--batch", "8", "-q"], [CONTEST])
    if change == "cut":
        path.write_bytes(path.read_bytes().splitlines()[0][:-20])
    stems = macro(lambda stem, again: [CONTEST])
    kept.run(EXPLAIN, path)
    assert stems == ["pair-01"]


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
