"""`micro.selftest --soak predictions`: what it says of run files made by hand, and that what is whole is kept."""

from __future__ import annotations

import itertools
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from macro import changes
from micro.command import soak_predictions, soak_runs
from reports.record import Contest, Environment, Expected, Prediction
from reports.store import RunFile
from tests.reports.test_prediction import AFTER

Answer = Callable[[str, bool], int]  # to a command's name and whether it goes on: its exit code


def found(change: str, seconds: float, name: str, predicted: float | None = None) -> Prediction:
    """Of a step of a second, predicted as it came unless another prediction is given."""
    expected, measured = (Expected(x, x - 0.01, x + 0.01, 0.9) for x in (predicted or seconds, seconds))
    return replace(
        AFTER, id=f"{name}/{change}", change=change, step=1.0, predicted=expected, measured=measured, resolution=0.01
    )


def of(name: str) -> list[Prediction]:
    """One for each change that is asked for, every other one of no effect."""
    words = soak_predictions.COMMANDS[name].split()[2:]
    asked = list(itertools.takewhile(lambda word: not word.startswith("--"), words))
    return [found(change, -0.1 if i % 2 else 0.0001, name) for i, change in enumerate(asked)]


@pytest.fixture
def macro(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[str]]:
    """`macro(answer)`: what stands in for `python -m macro`, in a folder of its own; the commands that it was asked."""

    def simulated(answer: Answer = lambda name, again: 0, cut: str | None = None) -> list[str]:
        asked: list[str] = []

        def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            again = words[-1] == "--resume"
            path = Path(words[-2] if again else words[-1])
            asked.append(path.stem)
            code = answer(path.stem, again)
            path.unlink(missing_ok=True)
            if code < 2:
                file = RunFile(path, Environment("", {}, {}, " ".join(["python", *words[2:]]), ""))
                for one in of(path.stem):
                    file.append(one)
                if path.stem != cut:
                    file.append(Contest("step/x", "?", "change", (), ()))
                file.close()
            why = "its run was made in another environment" if again else "it is not here"
            return subprocess.CompletedProcess(words, code, stderr=f"first\nmacro whatif: {why}\n")

        monkeypatch.setattr(soak_runs.subprocess, "run", run)
        monkeypatch.setattr(soak_runs.state, "folder", lambda: tmp_path)
        return asked

    return simulated


def test_what_is_right_is_held_and_not_measured_again(macro: Callable[..., list[str]]) -> None:
    asked = macro()
    figures = list(soak_predictions.figures())
    assert asked == list(soak_predictions.COMMANDS)
    assert all(figure.held for figure in figures), [figure.say() for figure in figures if not figure.held]
    assert (
        figures[1].say()
        == "fcn-r-pytorch, mkl-dispatch: predicted +0.0 [-1.0, +1.0] %, measured +0.0 [-1.0, +1.0] % of a step: "
        "confirmed"
    )
    asked = macro()
    assert [x.say() for x in soak_predictions.figures()][1:] == [x.say() for x in figures][1:] and asked == []


def test_what_was_killed_goes_on(macro: Callable[..., list[str]]) -> None:
    left = soak_predictions.folder
    went_on: list[bool] = []

    def killed(name: str, again: bool) -> int:
        path = left() / f"{name}.part"
        words = ["python", "-m", "macro", *soak_predictions._words(name), "-o", str(path)]
        RunFile(path, Environment("", {}, {}, shlex.join(words), "")).close()
        raise KeyboardInterrupt

    macro(killed)
    with pytest.raises(KeyboardInterrupt):
        list(soak_predictions.figures())
    macro(lambda name, again: went_on.append(again) or 0)
    list(soak_predictions.figures())
    assert went_on == [True, *[False] * (len(soak_predictions.COMMANDS) - 1)]


def test_what_cannot_go_on_begins_anew(macro: Callable[..., list[str]]) -> None:
    """What another command left, or an older commit's, which is refused."""
    first, second, *_ = soak_predictions.COMMANDS
    parts = [soak_predictions.folder() / f"{name}.part" for name in (first, second)] if macro() == [] else []
    parts[0].write_text('{"digest":"', "utf-8")
    words = ["python", "-m", "macro", *soak_predictions._words(second), "-o", str(parts[1])]
    RunFile(parts[1], Environment("", {}, {}, shlex.join(words), "")).close()
    asked = macro(lambda name, again: 2 * again)
    assert all(figure.held for figure in soak_predictions.figures())
    assert asked == [first, second, *list(soak_predictions.COMMANDS)[1:]]


def test_one_that_cannot_be_measured_is_said_and_the_others_go_on(macro: Callable[..., list[str]]) -> None:
    asked = macro(lambda name, again: 2 * (name == "fcn-s-pytorch"))
    found = {figure.name: figure for figure in soak_predictions.figures()}
    assert (found["fcn-s-pytorch"].found, found["fcn-s-pytorch"].held) == ("macro whatif: it is not here", False)
    assert asked == list(soak_predictions.COMMANDS) and found["pairs"].found.startswith("32,")


def test_one_that_ended_in_the_middle_is_not_whole(macro: Callable[..., list[str]]) -> None:
    """With the exit code of one of which a change had no effect, and without a contest."""
    macro(lambda name, again: int(name == "fcn-s-pytorch"), "fcn-s-pytorch")
    found = {figure.name: figure for figure in soak_predictions.figures()}
    assert not found["fcn-s-pytorch"].held and found["pairs"].found.startswith("32,")


def test_one_of_which_a_change_had_no_effect_counts(macro: Callable[..., list[str]]) -> None:
    macro(lambda name, again: int(name == "fcn-s-pytorch"))
    found = {figure.name: figure for figure in soak_predictions.figures()}
    assert "fcn-s-pytorch" not in found and found["pairs"].found.startswith("35,")


@pytest.mark.parametrize(
    ("changes", "figure"), [(["a"] * 6, "pairs of one change"), (["batch=3"] * 4, "batch, threads, isa")]
)
def test_no_change_stands_for_many(changes: list[str], figure: str) -> None:
    made = [found(change, -0.1, str(i)) for i, change in enumerate(changes)]
    assert [x.held for x in soak_predictions.together(made) if x.name.endswith(figure)] == [False]
    assert [x.held for x in soak_predictions.together(made[:3]) if x.name.endswith(figure)] == [True]


@pytest.mark.parametrize(
    ("change", "figure"),
    [
        ({"predicted": Expected(0.2, 0.19, 0.21, 0.9)}, "… sign"),
        ({"predicted": Expected(-0.2, -0.21, -0.19, 0.9)}, "… off by"),
        ({"predicted": Expected(-0.1, -0.2, 0.0, 0.9)}, "… half-width"),
        ({"predicted": None}, "… not predictable"),
        ({"verdict": "refuted"}, "… confirmed"),
        ({"resolution": 0.021}, "resolution"),
    ],
)
def test_each_promise_can_fail(change: dict[str, Any], figure: str) -> None:
    pairs = [found(f"change{i % 9}", -0.1 if i % 2 else 0.0001, str(i)) for i in range(40)]
    assert all(one.held for one in soak_predictions.together(pairs))
    every = figure == "resolution"
    large = [replace(x, **change) if every or (x.measured and x.measured.seconds < -0.05) else x for x in pairs]
    assert figure in [one.name for one in soak_predictions.together(large) if not one.held]


def test_intervals_and_alarms_can_fail_too() -> None:
    pairs = [found(f"change{i % 9}", 0.0001, str(i), predicted=0.2) for i in range(40)]
    missed = [one.name for one in soak_predictions.together(pairs) if not one.held]
    assert missed[:2] == ["90 % intervals", "… that were predicted to be one"]


def test_they_are_changes_of_this_suite_and_none_has_a_sixth_of_them() -> None:
    words = [line.partition(" --")[0].split()[2:] for line in soak_predictions.COMMANDS.values()]
    asked = [x for line in words for x in line]
    kinds = [x.partition("=")[0] for x in asked]
    assert {changes.known(kind).name for kind in kinds} == set(kinds)
    assert len(asked) >= 30 and max(map(kinds.count, kinds)) <= 5
    assert sum(kind in ("threads", "isa", "batch") for kind in kinds) <= 3
