"""Run files of campaigns: what is finished stays, what is not begins anew or is resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reports.record import Contest
from tests.soak import kept
from tests.soak.conftest import Answer, write

WORDS = ["explain", "fcn-r", "numpy", "pytorch", "-q"]
CONTEST = Contest("step/x", "?", "change", (), ())


@pytest.fixture
def path(own_state: Path) -> Path:
    return kept.folder("soak-test") / "pair-01.jsonl"


def test_finished_runs_stay(macro: Callable[[Answer], list[str]], path: Path) -> None:
    stems = macro(lambda stem, again: [CONTEST])
    assert [len(kept.run(WORDS, path).contests) for _ in range(2)] == [1, 1]
    assert stems == ["pair-01"] and not path.with_suffix(".part").exists()


@pytest.mark.parametrize("change", ["cut", "other words"])
def test_unusable_files_are_measured_anew(change: str, macro: Callable[[Answer], list[str]], path: Path) -> None:
    write(path, WORDS if change == "cut" else [*WORDS[:-1], "--batch", "8", "-q"], [CONTEST])
    if change == "cut":
        path.write_bytes(path.read_bytes().splitlines()[0][:-20])
    stems = macro(lambda stem, again: [CONTEST])
    kept.run(WORDS, path)
    assert stems == ["pair-01"]


@pytest.mark.parametrize("resumed", [True, False])
def test_interrupted_runs_are_resumed_on_request(
    resumed: bool, macro: Callable[[Answer], list[str]], path: Path
) -> None:
    write(path.with_suffix(".part"), WORDS)
    path.with_name("pair-01-a.kg").touch()
    path.with_name("pair-011.kg").touch()
    again: list[bool] = []
    macro(lambda stem, resume: again.append(resume) or [CONTEST])  # type: ignore[func-returns-value]
    kept.run(WORDS, path, resumed=resumed)
    assert again == [resumed]
    assert path.with_name("pair-01-a.kg").exists() is resumed, "a recording of the same name would be refused"
    assert path.with_name("pair-011.kg").exists(), "it is another pair's"


def test_another_environment_begins_anew(macro: Callable[[Answer], list[str]], path: Path) -> None:
    write(path.with_suffix(".part"), WORDS)
    stems = macro(lambda stem, again: (2, []) if again else [CONTEST])
    kept.run(WORDS, path, resumed=True)
    assert stems == ["pair-01"] * 2


@pytest.mark.parametrize(("code", "missing"), [(1, False), (2, True)])
def test_failed_commands_raise(code: int, missing: bool, macro: Callable[[Answer], list[str]], path: Path) -> None:
    macro(lambda stem, again: (code, [CONTEST]))
    with pytest.raises(kept.Failed, match="it is not here") as failed:
        kept.run(WORDS, path)
    assert failed.value.missing is missing and not path.exists()


def test_a_partly_failed_run_counts_if_complete(macro: Callable[[Answer], list[str]], path: Path) -> None:
    macro(lambda stem, again: (1, [CONTEST]))
    assert kept.run(WORDS, path, complete=lambda run: bool(run.contests)).contests
    path.unlink()
    with pytest.raises(kept.Failed):
        kept.run(WORDS, path, complete=lambda run: not run.contests)


def test_the_forecast_counts_what_is_left(own_state: Path, path: Path) -> None:
    write(path, WORDS, [CONTEST])
    other = path.with_name("pair-02.jsonl")
    assert kept.forecast("pairs", {path: WORDS, other: WORDS}, 90.0, 30.0).value.startswith(
        "1 of 2 are to be measured, about 2 min; run files stay in "
    )
    assert kept.forecast("pairs", {path: WORDS}, 90.0, 30.0).value.startswith("0 of 1 are to be measured, about 0 min")
